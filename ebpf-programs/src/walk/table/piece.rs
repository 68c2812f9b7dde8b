//! A search where no verifier looks on and what it reads lies in one piece.
//!
//! A large table lies in no near cache, so most of the time goes into waiting for rows. Here the rows of a page are waited for
//! once: all lines of the cache that they lie in are asked for together, by the first row of each. Then one of these lines is
//! looked at as a whole. Nothing branches on what a row says, since half of a processor's guesses would be wrong.

use super::{GROUP_WORDS, HEADER_WORDS, RULE_WORDS, Table, rule};
use crate::abi::table::{GROUP_BITS, NO_DATA, Rule};
use crate::machine::Machine;

/// Rows in a line of a processor's cache.
const LINE: usize = 16;

/// Rows at most that are looked at so.
const MOST: usize = 16 * LINE;

impl Table {
    /// The rule at `address`, [`Rule::NO_DATA`] where nothing describes the code; `called` where a call should end there.
    ///
    /// `None` where a piece ends too early, and in broken tables.
    #[inline(always)]
    pub(super) fn find_at_once<M: Machine>(&self, machine: &M, address: u64, called: bool) -> Option<Rule> {
        let low = address as u32 & 0xffff;
        let (first, count) = self.rows_of(machine, address)?;
        let rows = machine.words_from(first)?;
        let place =
            if count > MOST { in_long_page(rows, count, low) } else { last_at_most(rows, count, low) }?;
        let row = *rows.get(place)?;
        let mut number = row >> 16;
        if called && row & 0xffff == low {
            number = number_behind(rows, place)?;
        }
        if number == NO_DATA as u32 {
            return Some(Rule::NO_DATA);
        }
        if number >= self.rules {
            return None;
        }
        Some(rule(*machine.words_from(self.list.wrapping_add(number * RULE_WORDS))?.first_chunk()?))
    }

    /// The row in front of those of the page of `address`, as a word of the arena, and how many rows there are from there on.
    #[inline(always)]
    fn rows_of<M: Machine>(&self, machine: &M, address: u64) -> Option<(u32, usize)> {
        let page = address.wrapping_sub(self.base) >> self.page_bits;
        if page >= self.pages as u64 {
            return Some((self.start.wrapping_add(HEADER_WORDS - 1), 1));
        }
        let page = page as u32;
        let group = machine.words_from(self.groups.wrapping_add((page >> GROUP_BITS) * GROUP_WORDS))?;
        let front = self.start.wrapping_add(*group.first()?).wrapping_sub(1);
        let [begin, end] = if self.whole != 0 {
            two_halves(machine, self.all_pages, page)?
        } else {
            let pages = *group.get(1)?;
            if pages == 0 {
                return Some((front, 1));
            }
            two_halves(machine, self.start, pages.wrapping_add(page & ((1 << GROUP_BITS) - 1)))?
        };
        let first = front.wrapping_add(begin.wrapping_sub(group[0]) & 0xffff);
        Some((first, (end.wrapping_sub(begin) & 0xffff) as usize + 1))
    }
}

/// Of the halves of words that begin at word number `first` of the arena, number `index` and the next one.
#[inline(always)]
fn two_halves<M: Machine>(machine: &M, first: u32, index: u32) -> Option<[u32; 2]> {
    let &[low, high] = machine.words_from(first.wrapping_add(index / 2))?.first_chunk()?;
    let both = (low as u64 | (high as u64) << 32) >> (index % 2 * 16);
    Some([both as u32 & 0xffff, (both >> 16) as u32 & 0xffff])
}

/// The place of the last of `count` rows that begins at or below `low`, 0 where all behind the first lie above it.
#[inline(always)]
fn last_at_most(rows: &[u32], count: usize, low: u32) -> Option<usize> {
    let is_at_most = |row: &u32| row & 0xffff <= low;
    let page = rows.get(..count)?;
    let Some(second) = page.get(1) else { return Some(0) };
    let mut next = to_next_line(rows);
    let (mut begin, mut end) = (0, next);
    while let Some(row) = page.get(next) {
        if is_at_most(row) {
            begin = next;
            end = next + LINE;
        }
        next += LINE;
    }
    // What follows would see this, too, but ask for the first line only when all others had come.
    let end = if is_at_most(second) { end.min(count) } else { begin + 1 };
    let rows = rows.get(begin..)?.first_chunk::<LINE>()?;
    // A bit for each row that lies above, and one for the end.
    let above = (0..LINE).fold(0, |above, place| above | u32::from(!is_at_most(&rows[place])) << place);
    let above = above & !1 | 1 << (end - begin);
    Some(begin + above.trailing_zeros() as usize - 1)
}

/// How many rows there are up to the next line of the cache.
#[inline(always)]
fn to_next_line(rows: &[u32]) -> usize {
    let words = rows.as_ptr().addr().wrapping_neg() / size_of::<u32>();
    match words % LINE {
        0 => LINE,
        some => some,
    }
}

/// The same where `count` is large: half of the rows are left out again and again.
#[cold]
#[inline(never)]
fn in_long_page(rows: &[u32], count: usize, low: u32) -> Option<usize> {
    let (mut skipped, mut left) = (0, count);
    while left > MOST {
        let half = left / 2;
        if rows.get(skipped + half)? & 0xffff <= low {
            skipped += half;
        }
        left -= half;
    }
    Some(skipped + last_at_most(rows.get(skipped..)?, left, low)?)
}

/// The number of the rule behind a row of the page that holds for one byte, else the row's own.
#[cold]
#[inline(never)]
fn number_behind(rows: &[u32], place: usize) -> Option<u32> {
    let (row, next) = (rows.get(place)?, rows.get(place + 1)?);
    let is_next = next & 0xffff == (row + 1) & 0xffff && next >> 16 != NO_DATA as u32;
    Some(if place != 0 && is_next { next >> 16 } else { row >> 16 })
}
