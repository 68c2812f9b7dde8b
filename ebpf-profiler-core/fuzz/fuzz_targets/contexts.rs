//! Any bytes as a process context, and any words as the labels of a thread: bounded, and no panic.
#![no_main]

use ebpf_profiler_core::internal::contexts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[flags, at], rest)) = data.split_first_chunk() else { return };
    let (words, payload) = rest.split_at((usize::from(at) * 8).min(rest.len()));
    let words: Vec<u64> = words.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    contexts::decode(payload, &words, flags);
});
