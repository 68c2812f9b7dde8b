//! What both sides of the kernel border agree on.
//!
//! Fixed-width integers only, native byte order, layouts asserted at compile time, one version word.

pub mod arena;

pub mod table;

pub mod mapping;

pub mod interpreter;

pub mod registers;

pub mod record;

pub mod cpu_buffer;

pub mod reason;

pub mod config;

/// Changes whenever anything in this module changes its meaning or layout.
///
/// The loader compares it with the word that the kernel object carries in its section `abi`.
pub const VERSION: u32 = 10;
