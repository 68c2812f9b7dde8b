//! Checks of functions by words and texts that a number [describes](crate::abi::contents).

use super::{LastText, Words, bytes, mix};
use crate::abi::contents::{
    ASCII, CHARACTERS_SHIFTS, COUNT, INDEX, LENGTH, MAX_WORDS, NO_HASH, OFFSET, SIZE, TABLE_BYTES,
    TABLE_SHIFT, TEXT_BYTES, TEXT_SHIFTS, TEXTS,
};
use crate::abi::interpreter::FRAME_BYTES;
use crate::machine::Machine;

/// Returns the check of a function whose words begin at `start`. `hashed` are the texts whose hashes are
/// used, a bit for each: in the kernel all of them. Returns `None` if its words are unreadable.
#[inline(always)]
pub fn check<M: Machine>(
    machine: &mut M,
    start: u64,
    contents: u32,
    hashed: u32,
    last: &mut LastText,
) -> Option<u32> {
    let count = contents >> COUNT.0 & COUNT.1;
    let words = machine.read_object(start, count * 8)?;
    let mut sum = 0;
    let mut index = 0;
    while index < MAX_WORDS {
        if index < count {
            sum = mix(sum, words[index as usize]);
        }
        index += 1;
    }
    let [first, second] = TEXT_SHIFTS.map(|shift| address(words, contents, shift));
    let table = address(words, contents, TABLE_SHIFT);
    // The file is the same for many functions.
    if first != last.address || hashed & 1 == 0 {
        *last = LastText { address: first, hash: text(machine, first, contents, hashed & 1) };
    }
    sum = mix(sum, last.hash);
    sum = mix(sum, text(machine, second, contents, hashed >> 1 & 1));
    sum = mix(sum, self::table(machine, table));
    Some((sum >> 40) as u32)
}

/// Returns the address at an index of the words, 0 for none.
#[inline(always)]
fn address(words: &Words, contents: u32, shift: u32) -> u64 {
    let index = contents >> shift & INDEX;
    if index == 0 { 0 } else { words[index.wrapping_sub(1) as usize & (FRAME_BYTES / 8 - 1)] }
}

/// Returns the hash of a text; 0 if it is unreadable.
#[inline(always)]
fn text<M: Machine>(machine: &mut M, at: u64, contents: u32, is_hashed: u32) -> u64 {
    let head = if at == 0 { None } else { machine.read_object(at.wrapping_add(LENGTH), 24) };
    let Some(head) = head else { return 0 };
    let (length, hash, state) = (head[0], head[1], head[2]);
    let sum = mix(0, length);
    if is_hashed != 0 && hash != NO_HASH {
        return mix(sum, hash);
    }
    let [ascii, wide] = CHARACTERS_SHIFTS.map(|shift| (contents >> shift & OFFSET) as u64 * 4);
    let is_wide = wide != 0 && state & ASCII == 0;
    let size = if is_wide { length.wrapping_mul(state >> SIZE.0 & SIZE.1) } else { length };
    let taken = if size < TEXT_BYTES { size } else { TEXT_BYTES };
    let first = at.wrapping_add(if is_wide { wide } else { ascii }).wrapping_add(size.wrapping_sub(taken));
    if let Some(words) = machine.read_object(first, TEXT_BYTES as u32) {
        return bytes::<{ TEXT_BYTES as usize / 8 }>(sum, words, 0, taken);
    }
    // A short text may be the last object of a mapping.
    match machine.read_object(first, 8) {
        Some(words) => bytes::<1>(sum, words, 0, taken),
        None => sum,
    }
}

/// Returns the hash of a table; 0 if it is unreadable.
#[inline(always)]
fn table<M: Machine>(machine: &mut M, at: u64) -> u64 {
    if at == 0 {
        return 0;
    }
    let at = at.wrapping_add(LENGTH);
    if let Some(words) = machine.read_object(at, 16 + TABLE_BYTES as u32) {
        return bytes::<{ TABLE_BYTES as usize / 8 }>(mix(0, words[0]), words, 2, words[0]);
    }
    // A short table may be the last object of a mapping.
    match machine.read_object(at, 24) {
        Some(words) => bytes::<1>(mix(0, words[0]), words, 2, words[0]),
        None => 0,
    }
}

const _: () = assert!(TEXTS == 2);
