//! Binary search through the blocks of the arena: few paths, and all steps but the first in one block.

use super::{GROUP_WORDS, HEADER_WORDS, Table};
use crate::abi::arena::BLOCK_WORDS;
use crate::abi::table::{GROUP_BITS, NO_DATA};
use crate::machine::Machine;
use crate::walk::arena::{SEARCH_STEPS, block, if_at_most, read_u16, word};

impl Table {
    /// Returns the number of the rule at `address`; see [`find`](Table::find) for `is_call`.
    #[inline(always)]
    pub(super) fn number<M: Machine>(&mut self, machine: &M, address: u64, is_call: bool) -> Option<u16> {
        let page = address.wrapping_sub(self.base) >> self.page_bits;
        if page != self.page {
            self.turn_to(machine, page)?;
        }
        if !M::VERIFIED
            && let Some(number) = self.search_contiguous(machine, address as u32 & 0xffff, is_call)
        {
            return Some(number);
        }
        self.search(machine, address & 0xffff, is_call)
    }

    /// Makes `page` the current page.
    #[inline(always)]
    fn turn_to<M: Machine>(&mut self, machine: &M, page: u64) -> Option<()> {
        self.page = page;
        self.count = 1;
        if page >= self.pages as u64 {
            // The row before all others has no data.
            self.first = self.start.wrapping_add(HEADER_WORDS - 1);
            return Some(());
        }
        let page = page as u32;
        let at = self.groups.wrapping_add((page >> GROUP_BITS) * GROUP_WORDS);
        let group = block(machine, at)?;
        let (first, pages) = (word(group, at), word(group, at + 1));
        self.first = self.start.wrapping_add(first).wrapping_sub(1);
        let (begin, end) = if self.whole != 0 {
            let pages = self.all_pages;
            (read_u16(machine, pages, page)?, read_u16(machine, pages, page.wrapping_add(1))?)
        } else if pages != 0 {
            let at = pages.wrapping_add(page & ((1 << GROUP_BITS) - 1));
            (read_u16(machine, self.start, at)?, read_u16(machine, self.start, at.wrapping_add(1))?)
        } else {
            return Some(());
        };
        self.first = self.first.wrapping_add(begin.wrapping_sub(first) & 0xffff);
        self.count = (end.wrapping_sub(begin) & 0xffff) + 1;
        Some(())
    }

    /// Returns the rule of the last row at or below `low` in the current page, or of the row before the page.
    #[inline(always)]
    fn search<M: Machine>(&self, machine: &M, low: u64, is_call: bool) -> Option<u16> {
        let (mut base, mut left) = (self.first, self.count);
        let room = BLOCK_WORDS as u32 - (base & (BLOCK_WORDS as u32 - 1));
        if left > room {
            // The first step compares at the border between two blocks, so that all further ones stay in one.
            let border = base.wrapping_add(room);
            let row = word(block(machine, border)?, border) as u64 & 0xffff;
            base = base.wrapping_add(if_at_most(row, low, room));
            left = room.wrapping_add(if_at_most(row, low, left.wrapping_sub(room * 2)));
        }
        let rows = block(machine, base)?;
        for _ in 0..SEARCH_STEPS {
            if left <= 1 {
                break;
            }
            let half = left / 2;
            let middle = base.wrapping_add(half);
            base = base.wrapping_add(if_at_most(word(rows, middle) as u64 & 0xffff, low, half));
            left -= half;
        }
        let row = word(rows, base);
        if is_call && row as u64 & 0xffff == low && base != self.first {
            let next = base.wrapping_add(1);
            let next = word(block(machine, next)?, next);
            if next as u64 & 0xffff == (low + 1) & 0xffff && next >> 16 != NO_DATA as u32 {
                return Some((next >> 16) as u16);
            }
        }
        Some((row >> 16) as u16)
    }
}
