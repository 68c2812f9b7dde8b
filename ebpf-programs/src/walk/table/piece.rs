//! Search among the rows of a page on a host, where they are contiguous in memory.
//!
//! The walkers' second search: [`blocks`](super::blocks) gives the same answers and runs here too where a page's rows are not
//! contiguous. It is slower, because each of its steps waits for a row that is in no near cache, and large tables are in none.
//! This search waits once per page: it requests all cache lines of the page's rows together, by the first row of each, and then
//! compares all rows of one line. No branch depends on a row, because half of them would be mispredicted.
//!
//! Nanoseconds for a frame at a random address, both searches in turns in one run of `benches/unwind_tables`:
//!
//! | file                    | this search | binary search |
//! |-------------------------|-------------|---------------|
//! | `libLLVM.so.22.1`       |          56 |            74 |
//! | `librustc_driver`       |          54 |            74 |
//! | `node`                  |          42 |            62 |
//! | `libc.so.6`             |          29 |            36 |
//!
//! In the column of this search it read the directory of pages on its own. Since both searches share that, a frame of `node`
//! takes 44 ns for 40.

use super::Table;
use crate::abi::table::NO_DATA;
use crate::machine::Machine;

/// Rows in a cache line.
const LINE: usize = 16;

/// Maximum number of rows that are searched by cache lines.
const MOST: usize = 16 * LINE;

impl Table {
    /// Returns the number of the rule for the address `low` of the current page, like [`search`](Table::search).
    ///
    /// `None` if the rows are not contiguous, or the table is inconsistent.
    #[inline(always)]
    pub(super) fn search_contiguous<M: Machine>(&self, machine: &M, low: u32, is_call: bool) -> Option<u16> {
        let count = self.count as usize;
        let rows = machine.words_from(self.first)?;
        let index =
            if count > MOST { in_long_page(rows, count, low) } else { last_at_most(rows, count, low) }?;
        let row = *rows.get(index)?;
        if is_call && row & 0xffff == low {
            return number_at_call(rows, index);
        }
        Some((row >> 16) as u16)
    }
}

/// Returns the index of the last of `count` rows that starts at or below `low`; 0 if all but the first start above it.
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
    // The comparison below would give the same result, but would wait for the first line after all others.
    let end = if is_at_most(second) { end.min(count) } else { begin + 1 };
    let rows = rows.get(begin..)?.first_chunk::<LINE>()?;
    // A bit for each row above `low`, and one for the end.
    let above = (0..LINE).fold(0, |above, index| above | u32::from(!is_at_most(&rows[index])) << index);
    let above = above & !1 | 1 << (end - begin);
    Some(begin + above.trailing_zeros() as usize - 1)
}

/// Returns the number of rows up to the next cache line.
#[inline(always)]
fn to_next_line(rows: &[u32]) -> usize {
    let words = rows.as_ptr().addr().wrapping_neg() / size_of::<u32>();
    match words % LINE {
        0 => LINE,
        some => some,
    }
}

/// Does the same for a large `count`, after a binary search for [`MOST`] rows.
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

/// Returns the number of the next row's rule if row `index` of the page is one byte long, else its own.
#[cold]
#[inline(never)]
fn number_at_call(rows: &[u32], index: usize) -> Option<u16> {
    let (row, next) = (rows.get(index)?, rows.get(index + 1)?);
    let is_next = next & 0xffff == (row + 1) & 0xffff && next >> 16 != NO_DATA as u32;
    Some((if index != 0 && is_next { next >> 16 } else { row >> 16 }) as u16)
}
