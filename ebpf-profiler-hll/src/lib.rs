//! High-level languages for ebpf-profiler.
