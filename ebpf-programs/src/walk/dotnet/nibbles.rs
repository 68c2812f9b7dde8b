//! Nibbles of a code heap: from an address to the start of the method.

use super::entries::enter_entries;
use super::{parameter, phase};
use crate::abi::dotnet::{HEADER_ENTRIES, parameter};
use crate::machine::Machine;
use crate::walk::Walk;
use crate::walk::identity::dotnet as identity;

/// Number of words of nibbles, 256 bytes of code each, that are read in one step; two at a time.
const NIBBLE_WORDS: u32 = 8;

/// Maximum number of steps through nibbles: methods of up to 256 KiB.
const MAX_NIBBLE_STEPS: u32 = 128;

/// Searches some words of nibbles, backwards, for the start of the method.
///
/// A word has eight, that of the lowest address first: 0, or 1 and the offset of a start within 32 bytes, in units of four. If the last
/// one is 9 or more, the word is the distance of a start.
#[inline(always)]
pub(super) fn nibbles<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    let has_distances = parameter(walk, parameter::HAS_DISTANCES) != 0;
    if walk.dotnet.steps > MAX_NIBBLE_STEPS {
        return walk.dotnet.enter(phase::STUB);
    }
    let mut read = 0;
    while read < NIBBLE_WORDS {
        let Some(word) = machine.read_memory(walk.dotnet.at) else {
            return walk.dotnet.enter(phase::STUB);
        };
        let word = word & 0xffff_ffff;
        let offset = walk.dotnet.offset;
        let within = pc.wrapping_sub(walk.dotnet.heap).wrapping_sub(offset);
        let is_distance = has_distances && word & 15 > 8;
        let start =
            if is_distance { (word & !15) + ((word & 15) - 9) * 4 } else { start_in(word, offset, within) };
        if start != u64::MAX {
            let start = walk.dotnet.heap.wrapping_add(start);
            return enter_method(walk, machine, pc, start);
        }
        if offset < 256 {
            return walk.dotnet.enter(phase::STUB);
        }
        walk.dotnet.offset = offset - 256;
        walk.dotnet.at = walk.dotnet.at.wrapping_sub(4);
        read += 1;
    }
}

/// Returns the last start in a word of nibbles that is not behind `within` bytes of the addresses that it stands for; `u64::MAX` if there
/// is none. The addresses begin at `offset`.
#[inline(always)]
pub(super) fn start_in(word: u64, offset: u64, within: u64) -> u64 {
    let (mut word, mut bucket) = (word, 7);
    if within < 256 {
        bucket = within >> 5;
        word >>= (28 - 4 * bucket) & 31;
        // A start behind `pc` in the same 32 bytes is none.
        if word & 15 > (within & 31) / 4 + 1 {
            word &= !15;
        }
    }
    let mut shifted = 0;
    if word & 0xffff == 0 {
        (word, shifted) = (word >> 16, 4);
    }
    if word & 0xff == 0 {
        (word, shifted) = (word >> 8, shifted + 2);
    }
    if word & 15 == 0 {
        (word, shifted) = (word >> 4, shifted + 1);
    }
    let nibble = word & 15;
    if nibble == 0 || shifted > bucket {
        return u64::MAX;
    }
    offset + (bucket - shifted) * 32 + (nibble - 1) * 4
}

/// Reads the header of the method whose code begins at `start`.
#[inline(always)]
fn enter_method<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64, start: u64) {
    walk.dotnet.enter(phase::STUB);
    if pc < start {
        return;
    }
    let name = parameter(walk, parameter::DYNAMIC_NAME);
    let Some(method) = identity::method(machine, start, name) else { return };
    walk.dotnet.start = start;
    walk.dotnet.check = method.check;
    enter_entries(walk, method.header.wrapping_add(HEADER_ENTRIES), method.entries);
}
