//! OpenTelemetry profiles and pprof from ebpf-profiler.
