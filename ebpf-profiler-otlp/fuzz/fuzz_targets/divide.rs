//! Any bytes as a message of the spool, compressed or not: it is divided or not, and the parts can be divided again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&coding, body)) = data.split_first() else { return };
    let Some(parts) = ebpf_profiler_otlp::fuzzing::divide(body, coding) else { return };
    for part in parts {
        // Numbers of table elements never grow, so neither does a part, but for the lengths around it.
        if coding % 3 == 0 {
            assert!(part.len() <= 2 * body.len() + 64);
        }
        ebpf_profiler_otlp::fuzzing::divide(&part, 0);
    }
});
