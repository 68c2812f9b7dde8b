//! Builds the rows of a table, in the order of their addresses.

use ebpf_programs::abi::table::{NO_DATA, PAGE, PAGE_ROWS};

use super::blocks::{Blocks, Place};
use super::image;
use super::rules::{CANNOT, Packed, Rules};

/// One row as it stands in the table: the low part of the address, the number of the rule.
pub(super) type Row = [u8; 4];

/// A table that grows row by row.
pub(crate) struct Builder {
    base: u64,
    rules: Rules,
    /// Where the rows of each finished page are.
    pages: Vec<Place>,
    /// The rows of finished pages.
    rows: Blocks,
    /// The rows of the page at work.
    page: Vec<Row>,
    /// Where the page at work ends.
    page_end: u64,
    /// The rule in force behind the last row.
    current: u16,
    /// Where the last row begins, or [`NOWHERE`].
    last: u64,
    /// How many rows the table has no room for.
    dropped: u32,
}

/// A finished table, and how many rows it had no room for.
pub(crate) struct Built {
    pub(crate) image: Vec<u8>,
    pub(crate) dropped: u32,
}

impl Builder {
    /// A table whose first row will be at `first`.
    pub(crate) fn new(first: u64) -> Builder {
        let base = first & !(PAGE - 1);
        Builder {
            base,
            page_end: base.saturating_add(PAGE),
            last: NOWHERE,
            rules: Rules::new(),
            pages: Vec::new(),
            rows: Blocks::default(),
            page: Vec::with_capacity(PAGE_ROWS),
            current: NO_DATA,
            dropped: 0,
        }
    }

    /// From `address` on `rule` holds. Addresses must not go down.
    #[inline]
    pub(crate) fn push(&mut self, address: u64, rule: Packed) {
        let number = self.rules.number(rule).unwrap_or_else(|| {
            self.dropped += 1;
            CANNOT
        });
        if number != self.current {
            self.add(address, number);
        }
    }

    #[inline]
    fn add(&mut self, address: u64, number: u16) {
        let fits = address < self.page_end && !self.page.is_empty() && self.page.len() < PAGE_ROWS;
        if fits && address != self.last {
            self.page.push(row(address as u16, number));
            self.last = address;
        } else {
            self.add_with_care(address, number);
        }
        self.current = number;
    }

    #[cold]
    fn add_with_care(&mut self, address: u64, number: u16) {
        if address >= self.page_end {
            self.turn_to(address);
        }
        let low = address as u16;
        if self.page.is_empty() && low != 0 {
            self.page.push(row(0, self.current));
        }
        if address == self.last && !self.page.is_empty() {
            return self.replace(low, number);
        }
        self.last = address;
        if self.page.len() < PAGE_ROWS {
            self.page.push(row(low, number));
        } else {
            self.overflow();
        }
    }

    /// Says something else about the address of the last row.
    fn replace(&mut self, low: u16, number: u16) {
        self.page.pop();
        let before = self.page.last().map(|&[_, _, x, y]| u16::from_le_bytes([x, y]));
        if before == Some(number) {
            self.last = NOWHERE;
        } else {
            self.page.push(row(low, number));
        }
    }

    /// A page can't have more rows: the rest of it can't be said.
    fn overflow(&mut self) {
        self.dropped += 1;
        if let Some([_, _, rule @ ..]) = self.page.last_mut() {
            *rule = CANNOT.to_le_bytes();
        }
    }

    /// Finishes the page at work and all pages before that of `address`.
    fn turn_to(&mut self, address: u64) {
        while address >= self.page_end {
            self.finish_page();
            self.page_end += PAGE;
        }
    }

    fn finish_page(&mut self) {
        if self.page.is_empty() && self.current != NO_DATA {
            self.page.push(row(0, self.current));
        }
        if self.rows.len() >= MAX_ROWS && self.page.len() > 1 {
            self.dropped += self.page.len() as u32;
            self.page = vec![row(0, CANNOT)];
        }
        self.pages.push(self.rows.add(self.page.as_flattened()));
        self.page.clear();
    }

    /// The rules so far.
    pub(crate) fn rules(&self) -> &[Packed] {
        self.rules.list()
    }

    /// The table, laid out.
    pub(crate) fn finish(mut self) -> Built {
        self.finish_page();
        let image = image::lay_out(self.base, self.rules.list(), &mut self.pages, self.rows);
        Built { image, dropped: self.dropped }
    }
}

/// No row's address: tables end before.
const NOWHERE: u64 = u64::MAX;

/// Bytes of rows at most, but for one row a page; real files stay under a tenth of it.
const MAX_ROWS: usize = 256 << 20;

fn row(low: u16, rule: u16) -> Row {
    let ([a, b], [c, d]) = (low.to_le_bytes(), rule.to_le_bytes());
    [a, b, c, d]
}
