//! Code heaps, which hold methods that are compiled while the program runs.

use ebpf_profiler_core::language::{Memory, Reason};
use ebpf_programs::abi::dotnet::{DYNAMIC, HEAP, HEAP_WORDS, MAX_STUB_KIND};

use super::method::ARRAY;
use super::sections::{Section, words};

/// Number of bytes of nibbles that are read: of 64 KiB of code.
const NIBBLES: usize = 1024;

/// Maximum number of methods that are looked at.
const MAX_METHODS: usize = 64;

/// Returns the descriptor of the first method in a heap that has metadata.
pub(super) fn first_method(section: &Section, memory: &dyn Memory) -> Result<Option<u64>, Reason> {
    if section.heap == 0 {
        return Ok(None);
    }
    let heap: [u64; HEAP as usize / 8] = words(section.heap, memory)?;
    let [_, _, base, nibbles] = HEAP_WORDS.map(|index| heap[index]);
    let nibbles = memory.bytes(nibbles, NIBBLES as u64, NIBBLES)?;
    for start in starts(&nibbles).take(MAX_METHODS) {
        let header = memory.u64(base.wrapping_add(start).wrapping_sub(8))?;
        if header <= MAX_STUB_KIND {
            continue;
        }
        let descriptor = memory.u64(header.wrapping_add(24))?;
        let kind = memory.u64(descriptor)? >> 48 & 7;
        if kind != DYNAMIC && kind != ARRAY {
            return Ok(Some(descriptor));
        }
    }
    Ok(None)
}

/// Returns the distances of methods from the start of the heap: a nibble stands for 32 bytes, the
/// highest one of four bytes first. It is 0, or 1 and the distance within these in units of four.
/// Words of a longer method may be distances; their lowest nibble is above 8.
fn starts(nibbles: &[u8]) -> impl Iterator<Item = u64> {
    let words = nibbles.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).zip(0u64..);
    words.filter(|(word, _)| word & 15 <= 8).flat_map(|(word, index)| {
        (0..8).filter_map(move |bucket| {
            let nibble = u64::from(word >> (28 - 4 * bucket) & 15);
            (1..=8).contains(&nibble).then(|| index * 256 + bucket * 32 + (nibble - 1) * 4)
        })
    })
}

#[test]
fn starts_are_those_of_nibbles() {
    let words = [0x1000_0003_u32, 0x149, 0x0080_0000];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(starts(&bytes).collect::<Vec<_>>(), [0, 7 * 32 + 8, 512 + 2 * 32 + 28]);
}
