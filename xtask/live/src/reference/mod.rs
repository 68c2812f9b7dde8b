//! Stacks that programs print.

pub mod chain;
pub mod chains;
pub mod printed;
