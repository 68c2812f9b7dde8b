//! Names and lines compared with independent tools, for every address of small programs.
//!
//! The programs are compiled here, so a compiler and binutils are required; without them the tests
//! fail and name the package.

#![expect(clippy::panic, reason = "helpers of tests, which fail and tell")]

mod address;
#[cfg(feature = "symbolize")]
#[expect(clippy::print_stdout, reason = "tests say what differs")]
mod demangle;
#[cfg(feature = "symbolize")]
mod hostile;
mod kernel;
mod later;
mod names;
mod program;
#[cfg(feature = "symbolize")]
#[expect(clippy::print_stdout, reason = "tests say what they compared")]
mod source;
mod starts;
mod tool;
