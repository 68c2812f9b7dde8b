//! A whole-system, cross-language sampling profiler for Linux, to embed in any Rust program.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod sample;

pub mod tables;

pub mod process;

pub mod elf;

pub mod unwind;

pub mod trace;

pub mod symbol;

pub mod profile;

pub mod sink;

pub mod pipeline;

pub mod replay;

#[cfg(feature = "live")]
pub mod live;

#[cfg(feature = "live")]
pub use live::Profiler;

pub mod testing;

mod text;
