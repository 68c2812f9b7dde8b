//! An independent judge: gimli evaluates the same unwind data, and each instruction must be left
//! the same way.
//!
//! Both sides are evaluated to numbers, over registers and a memory that are made up but different
//! everywhere, so two rules are equal when they lead to the same frame, not when they look alike.

pub(crate) mod files;

pub(crate) mod machine;

pub(crate) mod judge;

pub(crate) mod sections;
