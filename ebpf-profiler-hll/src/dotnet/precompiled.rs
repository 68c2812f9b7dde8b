//! Methods of precompiled code: the runtime keeps a map of the entry points that it has used.
//!
//! ```text
//!   buckets: number of buckets, then four keys and four values each
//!   bucket of a key: (key >> 2) + i * (1 + ((key >> 5) + 1) mod (number - 1)), mod number, until one has no collision
//! ```
//!
//! Entries of a function follow its first one, which has the entry point: handlers of exceptions
//! behind the method. Cold parts are at the end, and an array leads to their functions.

use ebpf_profiler_core::language::{Memory, Reason};
use ebpf_programs::abi::dotnet::{ENTRY, MAX_ENTRIES};

use super::layout::Layout;
use super::layout::precompiled::{COLD, ENTRIES};
use super::sections::{Section, words};

/// Maximum number of entries of one function.
const MAX_PARTS: u64 = 256;

/// Maximum number of buckets that a search visits.
const MAX_BUCKETS: usize = 64;

/// Bits of a value; the highest one is a mark.
const VALUE: u64 = u64::MAX >> 1;

/// Returns the descriptor of the method whose entry begins at `begin`.
pub(super) fn method(
    section: &Section,
    begin: u64,
    layout: &Layout,
    memory: &dyn Memory,
) -> Result<u64, Reason> {
    let data = memory.u64(section.module.wrapping_add(layout.precompiled))?;
    let [entries, count] = words(data.wrapping_add(ENTRIES), memory)?;
    let count = count & 0xffff_ffff;
    let distance = begin.wrapping_sub(section.start);
    if count > MAX_ENTRIES || distance > u64::from(u32::MAX) {
        return Err(Reason::Implausible);
    }
    let begin_of = |index: u64| memory.u32(entries.wrapping_add(index * ENTRY)).map(u64::from);
    let (mut first, mut last) = (0, count);
    while first < last {
        let middle = (first + last) / 2;
        if begin_of(middle)? <= distance {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    let index = first.checked_sub(1).ok_or(Reason::Implausible)?;
    if begin_of(index)? != distance {
        return Err(Reason::Implausible);
    }
    let [buckets] = words(data.wrapping_add(layout.methods), memory)?;
    let index = function_of(index, data, memory)?;
    for index in (index.saturating_sub(MAX_PARTS)..=index).rev() {
        let entry = section.start.wrapping_add(begin_of(index)?);
        if let Some(method) = value(buckets, entry, memory)? {
            return Ok(method);
        }
    }
    Err(Reason::Implausible)
}

/// Returns the index of a function's first entry: its cold part has another one.
fn function_of(index: u64, data: u64, memory: &dyn Memory) -> Result<u64, Reason> {
    let [pairs, count] = words(data.wrapping_add(COLD), memory)?;
    let count = count & 0xffff_ffff;
    if count > MAX_ENTRIES {
        return Err(Reason::Implausible);
    }
    // Two words of four bytes each.
    let pair = |index: u64| memory.u64(pairs.wrapping_add(index * 8));
    let (mut first, mut last) = (0, count / 2);
    while first < last {
        let middle = (first + last) / 2;
        if pair(middle)? & 0xffff_ffff <= index {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    match first.checked_sub(1) {
        Some(found) => Ok(pair(found)? >> 32),
        None => Ok(index),
    }
}

/// Returns the value of a key in the map.
fn value(buckets: u64, key: u64, memory: &dyn Memory) -> Result<Option<u64>, Reason> {
    let count = memory.u64(buckets)? & 0xffff_ffff;
    if !(2..MAX_ENTRIES).contains(&count) {
        return Err(Reason::Implausible);
    }
    let mut seed = (key >> 2) as u32;
    let increment = (1 + u64::from((key >> 5) as u32).wrapping_add(1) % (count - 1)) as u32;
    for _ in 0..MAX_BUCKETS {
        let bucket = 1 + u64::from(seed) % count;
        let words: [u64; 8] = words(buckets.wrapping_add(bucket * 64), memory)?;
        if let Some(slot) = words[..4].iter().position(|&found| found == key) {
            return Ok(Some((words[4 + slot] & VALUE) << 1));
        }
        // The mark of a collision.
        if words[4] & !VALUE == 0 {
            return Ok(None);
        }
        seed = seed.wrapping_add(increment);
    }
    Err(Reason::Implausible)
}
