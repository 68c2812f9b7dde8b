//! What ebpf-profiler costs: one file a question.
//!
//! The machine is never as quiet as one would like, so whatever is compared runs in turns, in one run, and
//! medians are told.

pub mod bpf;

pub mod interpreter;

pub mod options;

pub mod program;

pub mod report;

pub mod usage;
