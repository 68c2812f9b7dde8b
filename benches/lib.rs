//! Measures the cost of ebpf-profiler: one file per question.
//!
//! Other load changes the figures, so both sides of a comparison run in turns within one run, and
//! medians are printed.

pub mod bpf;

pub mod chain;

pub mod interpreter;

pub mod options;

pub mod peer;

pub mod program;

pub mod report;

pub mod timed;

pub mod usage;
