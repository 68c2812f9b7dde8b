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

use super::layout::precompiled::{COLD, ENTRIES, HEADER, MODULE};
use super::method::module_of;
use super::sections::{Section, words};

/// Maximum number of entries of one function.
const MAX_PARTS: u64 = 256;

/// Maximum number of buckets that a search visits.
const MAX_BUCKETS: usize = 64;

/// Bits of a value; the highest one is a mark.
const VALUE: u64 = u64::MAX >> 1;

/// First word of an image's header of precompiled code.
const READY_TO_RUN: u32 = u32::from_le_bytes(*b"RTR\0");

/// Maximum numbers of bytes of a module and of its data of precompiled code that are searched for
/// pointers.
const MODULE_SIZE: u64 = 1280;
const DATA_SIZE: u64 = 640;

/// Number of buckets that are looked at when the map is searched.
const SEARCHED_BUCKETS: u64 = 64;

/// Offsets that lead to precompiled methods. They differ between versions, and are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    /// In a module: data of its precompiled code.
    pub(super) data: u64,
    /// In this data: buckets of the map of entry points to methods.
    methods: u64,
}

impl Offsets {
    /// Derives the offsets from an image: its data leads back to its module, to a header and to
    /// entries in the image; its map has keys in the image, and a method of the module.
    pub(super) fn derive(image: &Section, memory: &dyn Memory) -> Result<Offsets, Reason> {
        let module = pointers(image.module, MODULE_SIZE, memory);
        let is_data = |data: u64| is_data(data, image, memory).unwrap_or(false);
        let (data, at) = module.into_iter().find(|&(_, data)| is_data(data)).ok_or(Reason::Implausible)?;
        let words = pointers(at.wrapping_add(COLD), DATA_SIZE - COLD, memory);
        let is_map = |buckets: u64| is_map(buckets, image, memory).unwrap_or(false);
        // At the start it is empty.
        let (methods, _) = words.into_iter().find(|&(_, at)| is_map(at)).ok_or(Reason::NotReady)?;
        Ok(Offsets { data, methods: COLD + methods })
    }
}

/// Returns the words at an address that may be pointers, with their offsets, up to the first one that
/// is unreadable.
fn pointers(address: u64, size: u64, memory: &dyn Memory) -> Vec<(u64, u64)> {
    const CHUNK: u64 = 64;
    let chunk = |at| memory.bytes(address.wrapping_add(at), CHUNK, CHUNK as usize).ok();
    let bytes: Vec<u8> = (0..size).step_by(CHUNK as usize).map_while(chunk).flatten().collect();
    let words = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    (0..).step_by(8).zip(words).filter(|(_, word)| word % 8 == 0 && word >> 12 != 0).collect()
}

/// Returns `true` for the data of an image's precompiled code.
fn is_data(data: u64, image: &Section, memory: &dyn Memory) -> Result<bool, Reason> {
    if memory.u64(data.wrapping_add(MODULE))? != image.module {
        return Ok(false);
    }
    let [entries, count] = words(data.wrapping_add(ENTRIES), memory)?;
    let header = memory.u64(data.wrapping_add(HEADER))?;
    let is_inside = |address: u64| (image.start..image.end).contains(&address);
    let is_plausible = is_inside(entries) && (1..=MAX_ENTRIES).contains(&(count & 0xffff_ffff));
    Ok(is_plausible && is_inside(header) && memory.u32(header)? == READY_TO_RUN)
}

/// Returns `true` for the buckets of the map of an image's entry points.
fn is_map(buckets: u64, image: &Section, memory: &dyn Memory) -> Result<bool, Reason> {
    let count = memory.u64(buckets)?;
    if !(2..MAX_ENTRIES).contains(&count) {
        return Ok(false);
    }
    let mut has_method = false;
    for bucket in 1..=count.min(SEARCHED_BUCKETS) {
        let words: [u64; 8] = words(buckets.wrapping_add(bucket * 64), memory)?;
        for (&key, &value) in words[..4].iter().zip(&words[4..]).filter(|&(&key, _)| key > 1) {
            if !(image.start..image.end).contains(&key) {
                return Ok(false);
            }
            has_method |= module_of((value & VALUE) << 1, memory) == Ok(image.module);
        }
    }
    Ok(has_method)
}

/// Returns the descriptor of the method whose entry begins at `begin`.
pub(super) fn method(
    section: &Section,
    begin: u64,
    offsets: Offsets,
    memory: &dyn Memory,
) -> Result<u64, Reason> {
    let data = memory.u64(section.module.wrapping_add(offsets.data))?;
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
    let [buckets] = words(data.wrapping_add(offsets.methods), memory)?;
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
