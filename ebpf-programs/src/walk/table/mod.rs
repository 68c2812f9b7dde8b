//! Look-up of the rule for an address.
//!
//! ```text
//!   Table::load ──► header ──► find ──┬─ blocks: binary search, which the verifier can follow
//!                                     └─ piece:  the same rows on a host, if they are contiguous in memory
//! ```

mod blocks;

mod piece;

use super::arena::{UNIT_WORDS, block, read_u64, word};
use crate::abi::table::{GROUP_BITS, Group, Header, NO_DATA, Rule};
use crate::machine::Machine;

/// Decoded header of a table, and the page of the last look-up.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Table {
    /// Arena offset of the table.
    place: u32,
    /// Number of bits of an address within a page.
    page_bits: u16,
    /// Not 0 if all groups have pages. Then a CPU can load a page without waiting for its group.
    whole: u16,
    /// Virtual address of the first page.
    base: u64,
    /// Page of the last look-up; callers are often in the page of the function that they call.
    page: u64,
    /// Number of pages.
    pages: u32,
    /// First word of the table in the arena.
    start: u32,
    /// First word of its rules in the arena.
    list: u32,
    /// Number of rules.
    rules: u32,
    /// First word of its groups in the arena.
    groups: u32,
    /// First word of its pages in the arena, if all groups have pages.
    all_pages: u32,
    /// Word of the row before those of the page.
    first: u32,
    /// Number of rows from that one to the end of the page.
    count: u32,
}

/// Arena offset of no table.
const NONE: u32 = u32::MAX;

/// Number of no page.
const NO_PAGE: u64 = u64::MAX;

/// Words of four bytes in a header, in a rule, and in a group.
const HEADER_WORDS: u32 = (size_of::<Header>() / 4) as u32;
const RULE_WORDS: u32 = (size_of::<Rule>() / 4) as u32;
const GROUP_WORDS: u32 = (size_of::<Group>() / 4) as u32;

impl Table {
    /// Invalidates the header.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.place = NONE;
    }

    /// Returns `true` if this is the header of the table at arena offset `place`.
    #[inline(always)]
    pub(super) fn is_at(&self, place: u32) -> bool {
        self.place == place
    }

    /// Reads the header of the table at arena offset `place`.
    #[inline(always)]
    pub(super) fn load<M: Machine>(machine: &M, place: u32) -> Option<Table> {
        let start = place.wrapping_mul(UNIT_WORDS);
        let block = block(machine, start)?;
        let rules = word(block, start + 3);
        // Rules and tables start at multiples of the size of a rule.
        let list = start.wrapping_add(word(block, start + 4)).wrapping_add(HEADER_WORDS + 3) & !3;
        let pages = word(block, start + 2);
        let groups = list.wrapping_add(rules.wrapping_mul(RULE_WORDS));
        Some(Table {
            place,
            page_bits: (word(block, start + 6) >> 16) as u16 & 63,
            whole: (word(block, start + 6) >> 24) as u16,
            base: read_u64(block, start),
            page: NO_PAGE,
            pages,
            start,
            list,
            rules,
            groups,
            all_pages: groups.wrapping_add(pages.div_ceil(1 << GROUP_BITS) * GROUP_WORDS),
            first: 0,
            count: 0,
        })
    }

    /// Returns the rule at virtual address `address` of the file, [`Rule::NO_DATA`] for code without unwind data; `None` for an
    /// inconsistent table.
    ///
    /// `is_call` means that `address` is the last byte of a call. No call is as short as a row of one byte. If such a row
    /// covers `address`, there was no call: the next address is that of an exception handler after a `ret`, and the next
    /// row is valid.
    #[inline(always)]
    pub(super) fn find<M: Machine>(&mut self, machine: &M, address: u64, is_call: bool) -> Option<Rule> {
        match self.number(machine, address, is_call)? {
            NO_DATA => Some(Rule::NO_DATA),
            number => self.rule(machine, number),
        }
    }

    /// Returns rule number `number`; `None` if there is no such rule.
    #[inline(always)]
    fn rule<M: Machine>(&self, machine: &M, number: u16) -> Option<Rule> {
        if number as u32 >= self.rules {
            return None;
        }
        let at = self.list.wrapping_add(number as u32 * RULE_WORDS);
        let block = block(machine, at)?;
        Some(rule([word(block, at), word(block, at + 1), word(block, at + 2), word(block, at + 3)]))
    }
}

/// Decodes a rule.
#[inline(always)]
fn rule([kinds, offset, aux, fp_offset]: [u32; RULE_WORDS as usize]) -> Rule {
    Rule {
        cfa: kinds as u8,
        register: (kinds >> 8) as u8,
        ra: (kinds >> 16) as u8,
        fp: (kinds >> 24) as u8,
        offset: offset as i32,
        aux: aux as i32,
        fp_offset: fp_offset as i32,
    }
}

/// Returns the rule of the table at arena offset `place` for virtual address `address` of the file, which is the last byte of a
/// call if `is_call` is set. `None` for an inconsistent table.
#[inline(always)]
pub fn find_rule<M: Machine>(machine: &M, place: u32, address: u64, is_call: bool) -> Option<Rule> {
    Table::load(machine, place)?.find(machine, address, is_call)
}
