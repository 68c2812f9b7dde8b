//! Any bytes as a collector's answer over HTTP: heads, interim answers, bodies with a length, in chunks or up to the end.
#![no_main]

use libfuzzer_sys::fuzz_target;

const MAX_HEAD: usize = 64 << 10;
const MAX_BODY: usize = 4 << 20;

fuzz_target!(|data: &[u8]| {
    let read = ebpf_profiler_otlp::fuzzing::http(data);
    if let Some((head, body)) = read {
        // The last read may add 4,096 bytes to the head, and an invalid byte becomes a character of three.
        assert!(head <= 3 * (MAX_HEAD + 4_096) && body <= MAX_BODY);
        assert!(head / 3 + body <= data.len());
    }
    // What precedes the answer is an interim one, at most 16 of which are skipped.
    let interim = [b"HTTP/1.1 100 Continue\r\n\r\n", data].concat();
    if let (Some(read), Some(behind)) = (read, ebpf_profiler_otlp::fuzzing::http(&interim)) {
        assert_eq!(read, behind);
    }
});
