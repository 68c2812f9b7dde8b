//! The ABI between the kernel side and user space.
//!
//! It consists of fixed-width integers in native byte order. Layouts are asserted at compile time and covered by one
//! version number.
//!
//! Visible is what an embedder meets: events of [own programs](own), [stop reasons and counters](reason), and the
//! [registers] of a walk. The other modules are hidden from the documentation, because both sides change them together,
//! in any release. They are documented in the source.

#[doc(hidden)]
pub mod arena;

#[doc(hidden)]
pub mod table;

#[doc(hidden)]
pub mod mapping;

#[doc(hidden)]
pub mod interpreter;

#[doc(hidden)]
pub mod contents;

#[doc(hidden)]
pub mod array;

#[doc(hidden)]
pub mod compiled;

#[doc(hidden)]
pub mod hotspot;

#[doc(hidden)]
pub mod ruby;

#[doc(hidden)]
pub mod luajit;

#[doc(hidden)]
pub mod php;

#[doc(hidden)]
pub mod v8;

#[doc(hidden)]
pub mod beam;

#[doc(hidden)]
pub mod dotnet;

#[doc(hidden)]
pub mod labels;

pub mod registers;

#[doc(hidden)]
pub mod record;

#[doc(hidden)]
pub mod cpu_buffer;

pub mod reason;

#[doc(hidden)]
pub mod config;

#[doc(hidden)]
pub mod uretprobe;

#[doc(hidden)]
pub mod off_cpu;

pub mod own;

#[doc(hidden)]
pub mod cookie;

#[doc(hidden)]
pub mod filter;

#[doc(hidden)]
pub mod span;

#[doc(hidden)]
pub mod held;

#[doc(hidden)]
pub mod budget;

/// Version of the ABI; changes with the meaning or layout of anything in this module.
///
/// The loader compares it with the word in the section `abi` of the kernel object.
pub const VERSION: u32 = 23;
