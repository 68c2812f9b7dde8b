//! Totals of every kind of sample against an independent count, and their stacks against known
//! chains.
//!
//! Needs root: `cargo test -p live-suite --test events -- --ignored --test-threads=1`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod bpftrace;

mod budget;

mod chains;

mod disturbed;

mod filters;

mod in_use;

mod labels;

mod off_cpu;

mod own;

mod points;

mod probes;

mod program;

mod reentrancy;

mod returns;

mod spans;

mod switches;

mod tracefs;

mod workload;
