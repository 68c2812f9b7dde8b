//! Core files of real programs: each thread's stack as this crate, eu-stack and gdb see it, side by
//! side.
//!
//! ```text
//! cargo test --release -p live-suite --test core_files -- --ignored --nocapture --test-threads=1
//! ```
//!
//! A stack has to equal that of eu-stack or that of gdb, frame by frame, or to differ in a way that
//! its test explains. Needs gdb, elfutils, and the programs of the test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "the comparison is to be read")]

mod compare;
mod others;
mod programs;
