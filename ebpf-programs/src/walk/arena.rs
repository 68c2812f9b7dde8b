//! Reads from the arena.

use crate::abi::arena::{Block, UNIT};
use crate::abi::mapping::{Mapping, Process};
use crate::machine::Machine;

/// Words of four bytes in a unit of arena offsets.
pub(super) const UNIT_WORDS: u32 = (UNIT / 4) as u32;

/// Steps of a binary search through 2^14 mappings or rows, the maximum of both.
pub(super) const SEARCH_STEPS: usize = 14;

/// Words of four bytes in a mapping.
const MAPPING_WORDS: u32 = (size_of::<Mapping>() / 4) as u32;

/// Returns the block that contains word number `word` of the arena.
#[inline(always)]
pub(super) fn block<M: Machine>(machine: &M, word: u32) -> Option<&Block> {
    machine.block(word >> 14)
}

/// Returns word number `word` of the arena, which lies in `block`.
#[inline(always)]
pub(super) fn word(block: &Block, word: u32) -> u32 {
    block[(word & 0x3fff) as usize]
}

/// Returns element `index` of the array of 16-bit numbers that starts at word number `first` of the arena.
#[inline(always)]
pub(super) fn read_u16<M: Machine>(machine: &M, first: u32, index: u32) -> Option<u32> {
    let at = first.wrapping_add(index / 2);
    Some(word(block(machine, at)?, at) >> (index % 2 * 16) & 0xffff)
}

/// Returns the 64-bit number at word number `at` of the arena, which lies in `block`, low half first.
#[inline(always)]
pub(super) fn read_u64(block: &Block, at: u32) -> u64 {
    word(block, at) as u64 | (word(block, at + 1) as u64) << 32
}

/// Returns `value` if `a <= b`, else 0, for `a` and `b` below 2^63. Branch-free, because a branch in each step of a search
/// would double the number of paths that the verifier follows.
#[inline(always)]
pub(super) fn if_at_most(a: u64, b: u64, value: u32) -> u32 {
    value & !((b.wrapping_sub(a) as i64 >> 63) as u32)
}

/// Returns the mapping of `process` that contains `pc`.
#[inline(always)]
pub fn find_mapping<M: Machine>(machine: &M, process: &Process, pc: u64) -> Option<Mapping> {
    let first = process.mappings.wrapping_mul(UNIT_WORDS);
    let mut base = 0;
    let mut left = process.count;
    for _ in 0..SEARCH_STEPS {
        if left <= 1 {
            break;
        }
        let half = left / 2;
        let at = first.wrapping_add((base + half).wrapping_mul(MAPPING_WORDS));
        base += if_at_most(read_u64(block(machine, at)?, at), pc, half);
        left -= half;
    }
    let at = first.wrapping_add(base.wrapping_mul(MAPPING_WORDS));
    let block = block(machine, at)?;
    let mapping = Mapping {
        start: read_u64(block, at),
        end: read_u64(block, at + 2),
        bias: read_u64(block, at + 4),
        table: word(block, at + 6),
        kind: word(block, at + 7) as u16,
        interpreter: (word(block, at + 7) >> 16) as u16,
    };
    if process.count == 0 || pc < mapping.start || pc >= mapping.end {
        return None;
    }
    Some(mapping)
}
