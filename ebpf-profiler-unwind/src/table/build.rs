//! Builds the rows of a table, in the order of their addresses.

use ebpf_programs::abi::table::{NO_DATA, PAGE, PAGE_ROWS};

use super::image::Image;
use super::rules::{CANNOT, Packed, Rules};

/// One row as it stands in the table: the low part of the address, the number of the rule.
pub(super) type Row = [u8; 4];

/// A table that grows row by row.
pub(crate) struct Builder {
    base: u64,
    rules: Rules,
    /// The finished pages.
    image: Image,
    /// The rows of the page at work, and how many there are.
    page: Box<[Row; PAGE_ROWS]>,
    count: usize,
    /// The last address of the page at work.
    page_end: u64,
    /// Up to this address a row may follow the last one: the end of a page that has rows, else 0.
    limit: u64,
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
            page_end: base | (PAGE - 1),
            last: NOWHERE,
            rules: Rules::new(),
            image: Image::new(base),
            page: Box::new([Row::default(); PAGE_ROWS]),
            count: 0,
            limit: 0,
            current: NO_DATA,
            dropped: 0,
        }
    }

    /// From `address` on `rule` holds. Addresses must not go down.
    #[inline(always)]
    pub(crate) fn push(&mut self, address: u64, rule: Packed) {
        if let Some(number) = self.rules.recent(rule) {
            if number == self.current {
                return;
            }
            if let Some(place) = self.page.get_mut(self.count)
                && address > self.last
                && address <= self.limit
            {
                *place = row(address as u16, number);
                self.count += 1;
                self.last = address;
                self.current = number;
                return;
            }
        }
        self.push_with_care(address, rule);
    }

    #[cold]
    #[inline(never)]
    fn push_with_care(&mut self, address: u64, rule: Packed) {
        let number = self.rules.number(rule).unwrap_or_else(|| self.drop_rule());
        if number != self.current {
            self.add(address, number);
        }
        self.current = number;
    }

    #[cold]
    fn drop_rule(&mut self) -> u16 {
        self.dropped += 1;
        CANNOT
    }

    fn add(&mut self, address: u64, number: u16) {
        if address > self.page_end {
            self.turn_to(address);
        }
        let low = address as u16;
        if self.count == 0 && low != 0 {
            self.put(row(0, self.current));
        }
        if address == self.last && self.count > 0 {
            return self.replace(low, number);
        }
        self.last = address;
        if !self.put(row(low, number)) {
            self.overflow();
        }
    }

    /// Adds a row to the page; whether there was room.
    fn put(&mut self, row: Row) -> bool {
        let place = self.page.get_mut(self.count);
        let has_room = place.is_some();
        if let Some(place) = place {
            *place = row;
            self.count += 1;
            self.limit = self.page_end;
        }
        has_room
    }

    /// Says something else about the address of the last row.
    fn replace(&mut self, low: u16, number: u16) {
        self.count -= 1;
        let before = self.page[..self.count].last().map(|&[_, _, x, y]| u16::from_le_bytes([x, y]));
        if before == Some(number) {
            self.last = NOWHERE;
        } else {
            self.put(row(low, number));
        }
    }

    /// A page can't have more rows: the rest of it can't be said.
    fn overflow(&mut self) {
        self.dropped += 1;
        if let Some([_, _, rule @ ..]) = self.page.last_mut() {
            *rule = CANNOT.to_le_bytes();
        }
    }

    /// Finishes the page at work and all pages before that of `address`, of which only those have a row that a rule
    /// reaches through.
    fn turn_to(&mut self, address: u64) {
        self.finish_page();
        while self.current != NO_DATA && address - self.page_end > PAGE {
            self.page_end += PAGE;
            self.finish_page();
        }
        self.page_end = address | (PAGE - 1);
    }

    fn finish_page(&mut self) {
        if self.count == 0 && self.current != NO_DATA {
            self.put(row(0, self.current));
        }
        if self.image.len() >= MAX_ROWS && self.count > 1 {
            self.dropped += self.count as u32;
            self.count = 0;
            self.put(row(0, CANNOT));
        }
        let number = (self.page_end - self.base) / PAGE;
        self.image.add(number as u32, self.page[..self.count].as_flattened());
        self.count = 0;
        self.limit = 0;
    }

    /// The rules so far.
    pub(crate) fn rules(&self) -> &[Packed] {
        self.rules.list()
    }

    /// The table, laid out.
    pub(crate) fn finish(mut self) -> Built {
        self.finish_page();
        Built { image: self.image.finish(self.rules.list()), dropped: self.dropped }
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
