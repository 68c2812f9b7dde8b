//! Any bytes as header blocks of one connection, each with its length in a byte before it; and as a header of ours.
#![no_main]

use ebpf_profiler_otlp::fuzzing::{hpack, hpack_block};
use libfuzzer_sys::fuzz_target;

const MAX_HEADERS: usize = 256 << 10;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    let blocks = std::iter::from_fn(|| {
        let (&len, tail) = rest.split_first()?;
        let (block, behind) = tail.split_at(tail.len().min(len.into()));
        rest = behind;
        Some(block)
    });
    let sizes = hpack(blocks);
    assert!(sizes.into_iter().flatten().sum::<usize>() <= MAX_HEADERS);
    assert!(hpack([data].into_iter())[0].unwrap_or_default() <= MAX_HEADERS);
    if let Ok(text) = std::str::from_utf8(data) {
        let block = hpack_block("name", text);
        assert_eq!(hpack([&*block].into_iter()), [Some(4 + text.len()).filter(|len| len + 32 <= MAX_HEADERS)]);
    }
});
