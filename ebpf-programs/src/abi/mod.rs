//! The ABI between the kernel side and user space.
//!
//! It consists of fixed-width integers in native byte order. Layouts are asserted at compile time and covered by one
//! version number.

pub mod arena;

pub mod table;

pub mod mapping;

pub mod interpreter;

pub mod contents;

pub mod array;

pub mod compiled;

pub mod hotspot;

pub mod ruby;

pub mod luajit;

pub mod php;

pub mod v8;

pub mod registers;

pub mod record;

pub mod cpu_buffer;

pub mod reason;

pub mod config;

pub mod uretprobe;

pub mod off_cpu;

pub mod own;

pub mod cookie;

pub mod filter;

pub mod span;

pub mod held;

pub mod budget;

/// Version of the ABI; changes with the meaning or layout of anything in this module.
///
/// The loader compares it with the word in the section `abi` of the kernel object.
pub const VERSION: u32 = 21;
