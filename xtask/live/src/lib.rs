//! Parts that tests of several languages and areas share.
//!
//! A test runs a program, profiles it, and compares the sampled stacks with a reference, which is
//! mostly what the program prints itself:
//!
//! ```text
//! workload   ──►  sampled     ──┐
//!            ──►  reference   ──┴──►  comparison
//! ```
//!
//! Programs to profile are in `tests/programs` and in the folders of the tests.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its shares are to be read"
)]

pub mod comparison;
pub mod compile;
pub mod paths;
pub mod perf_ring;
pub mod process;
pub mod reference;
pub mod root;
pub mod sampled;
pub mod selection;
pub mod workload;
