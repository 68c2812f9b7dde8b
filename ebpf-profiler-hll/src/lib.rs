//! High-level languages for ebpf-profiler: names for the frames of interpreters and JIT compilers.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod python;

mod code;

mod fde;

mod split;

mod thread_local;

use ebpf_profiler_core::language::Language;

/// All languages that there are.
pub fn all() -> Vec<Box<dyn Language>> {
    vec![Box::new(python::Python)]
}
