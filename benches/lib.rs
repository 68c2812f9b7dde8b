//! What ebpf-profiler costs: one file a question.
