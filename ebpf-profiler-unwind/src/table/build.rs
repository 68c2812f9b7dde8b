//! Builds the rows of a table, in the order of their addresses.

use ebpf_programs::abi::table::{NO_DATA, PAGE, PAGE_ROWS, Rule};

use super::image;
use super::rules::{CANNOT, Rules};

/// One row as it stands in the table: the low part of the address, the number of the rule.
pub(super) type Row = [u8; 4];

/// A table that grows row by row.
pub(crate) struct Builder {
    base: u64,
    rules: Rules,
    /// How many rows each finished page has.
    pages: Vec<u32>,
    /// The rows of finished pages.
    rows: Vec<u8>,
    /// The rows of the page at work.
    page: Vec<Row>,
    /// The rule in force behind the last row.
    current: u16,
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
        Builder {
            base: first & !(PAGE - 1),
            rules: Rules::new(),
            pages: Vec::new(),
            rows: Vec::new(),
            page: Vec::with_capacity(PAGE_ROWS),
            current: NO_DATA,
            dropped: 0,
        }
    }

    /// From `address` on `rule` holds. Addresses must not go down.
    #[inline]
    pub(crate) fn push(&mut self, address: u64, rule: Rule) {
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
        let Some(distance) = address.checked_sub(self.base) else { return };
        let page = (distance / PAGE) as usize;
        if page > self.pages.len() {
            self.turn_to(page);
        }
        let low = (distance % PAGE) as u16;
        if self.page.is_empty() && low != 0 {
            self.page.push(row(0, self.current));
        }
        self.current = number;
        self.put(low, number);
    }

    /// Adds a row to the page at work, or replaces what was said about the same address.
    #[inline]
    fn put(&mut self, low: u16, number: u16) {
        let [a, b] = low.to_le_bytes();
        match self.page.last() {
            Some(&[x, y, _, _]) if (x, y) == (a, b) => self.replace(low, number),
            _ if self.page.len() < PAGE_ROWS => self.page.push(row(low, number)),
            _ => self.overflow(),
        }
    }

    #[cold]
    fn replace(&mut self, low: u16, number: u16) {
        self.page.pop();
        let before = self.page.last().map(|&[_, _, x, y]| u16::from_le_bytes([x, y]));
        if before != Some(number) {
            self.page.push(row(low, number));
        }
    }

    /// A page can't have more rows: the rest of it can't be said.
    #[cold]
    fn overflow(&mut self) {
        self.dropped += 1;
        if let Some([_, _, rule @ ..]) = self.page.last_mut() {
            *rule = CANNOT.to_le_bytes();
        }
    }

    /// Finishes the page at work and all pages before `page`.
    fn turn_to(&mut self, page: usize) {
        self.finish_page();
        while self.pages.len() < page {
            self.finish_page();
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
        self.pages.push(self.page.len() as u32);
        let rows = self.page.as_flattened();
        grow(&mut self.rows, rows.len());
        self.rows.extend_from_slice(rows);
        self.page.clear();
    }

    /// The table, laid out.
    pub(crate) fn finish(mut self) -> Built {
        self.finish_page();
        let image = image::lay_out(self.base, self.rules.list(), &self.pages, self.rows);
        Built { image, dropped: self.dropped }
    }
}

/// Bytes of rows at most, but for one row a page; real files stay under a tenth of it.
const MAX_ROWS: usize = 256 << 20;

fn row(low: u16, rule: u16) -> Row {
    let ([a, b], [c, d]) = (low.to_le_bytes(), rule.to_le_bytes());
    [a, b, c, d]
}

/// Makes room in small steps: doubling would cost as much memory as the table itself.
fn grow(rows: &mut Vec<u8>, more: usize) {
    if rows.capacity() - rows.len() < more {
        rows.reserve_exact(more + rows.len() / 16 + (64 << 10));
    }
}
