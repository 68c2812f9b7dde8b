//! Stacks against the truth, and samples against the kernel's own count.
//!
//! Each case builds a program of `tests/programs`, asks gdb what its stacks look like, profiles it
//! through the command line that users have, and requires that 99.9 % of its samples are exactly
//! those stacks.
//!
//! ```text
//! cargo test --release -p live-suite --test truth                                    the comparer's own tests
//! cargo build --release -p examples
//! sudo -E cargo test --release -p live-suite --test truth -- --ignored --nocapture   the cases
//! ```
//!
//! `TRUTH_PROFILER` chooses the tested profiler: a path of a `flamegraph` binary, or `perf` for `perf
//! record --call-graph dwarf`, which shows that the cases themselves are fair.

mod batch;
mod busy;
mod case;
mod chains;
mod compare;
mod compile;
mod folded;
mod kernel;
mod lives;
mod oracle;
mod perf;
mod process;
mod profiler;
mod rest;
mod roots;
