//! Any status, message and details of a gRPC call, and any bytes as its message.
#![no_main]

use libfuzzer_sys::fuzz_target;

const NAMES: [&[u8]; 4] = [b"grpc-status", b"grpc-message", b"grpc-status-details-bin", b":status"];

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(NAMES.len() + 1, |&byte| byte == b'\n');
    let mut headers = Vec::new();
    for name in NAMES {
        let value = parts.next().unwrap_or_default();
        if !value.is_empty() {
            headers.push((name, value));
        }
    }
    let body = parts.next().unwrap_or_default();
    let wait = ebpf_profiler_otlp::fuzzing::grpc(&headers, body);
    // Only the details of the status have a wait.
    assert!(wait.is_none() || headers.iter().any(|(name, _)| *name == NAMES[2]));
});
