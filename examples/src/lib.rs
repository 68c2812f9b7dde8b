//! Programs that embed ebpf-profiler.
