//! Stacks of Python programs compared with ground truth: every frame, native and Python, from the
//! root to the leaf, with the line of each call.
//!
//! Each workload of `programs` runs under every interpreter that `cargo xtask pythons` has found.
//! The expected stack is combined from three independent sources:
//!
//! ```text
//!   Python      sys._getframe in the workload: function, file and line of each Python frame
//!   gdb         the native frames, and the position of the evaluation loop among them
//!   the source  which lines the leaf may be on, and which calls go through C (comments; `library.rs`)
//! ```
//!
//! A sample is exact if it is that stack, with the loop replaced by the Python frames that it runs;
//! above the leaf's Python frame there may be native code of the interpreter, but no loop. Every
//! sample of the process counts, from the line by which the workload reports that it is ready to
//! the end of the profile. 995 of 1,000 have to be exact.
//!
//! ```text
//! cargo xtask pythons
//! cargo test --release -p live-suite --test python                                     tests of the comparison itself
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test python -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! Other tests run programs that load and unload interpreters, replace themselves by other
//! programs, or are killed (`changes.rs`). No function may appear in a program that did not run it.
//!
//! `TRUTH_PYTHON=3.6,debian` leaves only the interpreters with one of these in their names,
//! `TRUTH_CHAIN=json,names` only such workloads.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod changes;
mod colors;
mod comparison;
mod expected;
mod interpreter;
mod library;
mod perf_map;
mod phases;
mod profiler;
mod py_spy;
mod seen;
mod skeleton;
mod source;
mod workload;
mod workloads;
