//! From an address to its rule.
//!
//! ```text
//!   Table::load ──► head ──► find ──┬─ blocks: the kernel's way, which a verifier can follow
//!                                   └─ piece:  the same rows where they lie in one piece, without waiting for each
//! ```

mod blocks;

mod piece;

use super::arena::{UNIT_WORDS, block, read_u64, word};
use crate::abi::table::{GROUP_BITS, Group, Header, NO_DATA, Rule};
use crate::machine::Machine;

/// What a walk keeps of a table's head.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Table {
    /// Its place in the arena.
    place: u32,
    /// Of how many bits an address within a page is.
    page_bits: u16,
    /// Whether all groups have pages. Then a processor goes on to a page before its group is there.
    whole: u16,
    /// The address of the first page.
    base: u64,
    /// The page that was looked at last; callers often lie in the page of what they call.
    page: u64,
    /// How many pages there are.
    pages: u32,
    /// The word of the arena at which the table begins.
    start: u32,
    /// The word of the arena at which its rules begin.
    list: u32,
    /// How many rules there are.
    rules: u32,
    /// The word at which its groups begin.
    groups: u32,
    /// The word at which its pages begin, where all groups have pages.
    all_pages: u32,
    /// The row in front of those of that page, as a word of the arena.
    first: u32,
    /// How many rows there are from there to the end of the page.
    count: u32,
}

/// No table lies there.
const NONE: u32 = u32::MAX;

/// No page has this number.
const NO_PAGE: u64 = u64::MAX;

/// Words of four bytes in a header, in a rule, and in a group.
const HEADER_WORDS: u32 = (size_of::<Header>() / 4) as u32;
const RULE_WORDS: u32 = (size_of::<Rule>() / 4) as u32;
const GROUP_WORDS: u32 = (size_of::<Group>() / 4) as u32;

impl Table {
    /// Forgets which table it is.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.place = NONE;
    }

    /// Whether it is the head of the table at `place`.
    #[inline(always)]
    pub(super) fn is_at(&self, place: u32) -> bool {
        self.place == place
    }

    /// Reads the head of the table at `place`.
    #[inline(always)]
    pub(super) fn load<M: Machine>(machine: &M, place: u32) -> Option<Table> {
        let start = place.wrapping_mul(UNIT_WORDS);
        let block = block(machine, start)?;
        let rules = word(block, start + 3);
        // Rules begin at a multiple of their size, and so does a table.
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

    /// The rule at virtual address `address` of the file, [`Rule::NO_DATA`] where nothing describes the code; `None` for a broken
    /// table.
    ///
    /// No call is as short as a row of one byte. Where one should end in such a row, which is when `called` is set, it wasn't
    /// called: the address behind it is where an exception will be handled, behind a `ret`, and the next row holds.
    #[inline(always)]
    pub(super) fn find<M: Machine>(&mut self, machine: &M, address: u64, called: bool) -> Option<Rule> {
        let at_once = if M::VERIFIED { None } else { self.find_at_once(machine, address, called) };
        if at_once.is_some() {
            return at_once;
        }
        match self.number(machine, address, called)? {
            NO_DATA => Some(Rule::NO_DATA),
            number => self.rule(machine, number),
        }
    }

    /// Rule number `number`.
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

/// A rule from the words that it takes.
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

/// The rule of the table at `place` for virtual address `address` of the file; `called` where a call should end there. `None` for
/// a broken table.
#[inline(always)]
pub fn find_rule<M: Machine>(machine: &M, place: u32, address: u64, called: bool) -> Option<Rule> {
    Table::load(machine, place)?.find(machine, address, called)
}
