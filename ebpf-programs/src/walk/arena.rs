//! Reading what user space laid into the arena.

use crate::abi::arena::{Block, UNIT};
use crate::abi::mapping::{Mapping, Process};
use crate::machine::Machine;

/// Words of four bytes in a unit.
pub(super) const UNIT_WORDS: u32 = (UNIT / 4) as u32;

/// Steps of a search through 2^14 mappings or rows, the most that there can be in one run.
pub(super) const SEARCH_STEPS: usize = 14;

/// Words of four bytes in a mapping.
const MAPPING_WORDS: u32 = (size_of::<Mapping>() / 4) as u32;

/// The block that word number `word` of the arena lies in.
#[inline(always)]
pub(super) fn block<M: Machine>(machine: &M, word: u32) -> Option<&Block> {
    machine.block(word >> 14)
}

/// Word number `word` of the arena, which lies in `block`.
#[inline(always)]
pub(super) fn word(block: &Block, word: u32) -> u32 {
    block[(word & 0x3fff) as usize]
}

/// Of the halves of words that begin at word number `first` of the arena, number `index`.
#[inline(always)]
pub(super) fn read_u16<M: Machine>(machine: &M, first: u32, index: u32) -> Option<u32> {
    let at = first.wrapping_add(index / 2);
    Some(word(block(machine, at)?, at) >> (index % 2 * 16) & 0xffff)
}

/// Two words as one, the low half first.
#[inline(always)]
pub(super) fn read_u64(block: &Block, at: u32) -> u64 {
    word(block, at) as u64 | (word(block, at + 1) as u64) << 32
}

/// `value` where `a <= b`, else 0, without a branch: both below 2^63. A branch here would double the number of paths
/// that the verifier follows at every step of a search.
#[inline(always)]
pub(super) fn if_at_most(a: u64, b: u64, value: u32) -> u32 {
    value & !((b.wrapping_sub(a) as i64 >> 63) as u32)
}

/// The mapping of `process` that `pc` lies in.
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
