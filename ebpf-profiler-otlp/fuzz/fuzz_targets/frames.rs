//! Any bytes as the frames of an HTTP/2 server, as they are and with lengths that fit.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    ebpf_profiler_otlp::fuzzing::frames(data);
    // Kind, flags and a length of one byte, then the payload: most frames then end where the next one begins.
    let (mut rest, mut frames) = (data, Vec::new());
    while let [kind, flags, len, tail @ ..] = rest {
        let (payload, behind) = tail.split_at(tail.len().min((*len).into()));
        let stream = u8::from(matches!(kind % 10, 0 | 1 | 9) || flags & 0x40 != 0);
        frames.extend([0, 0, payload.len() as u8, kind % 10, *flags, 0, 0, 0, stream]);
        frames.extend_from_slice(payload);
        rest = behind;
    }
    ebpf_profiler_otlp::fuzzing::frames(&frames);
});
