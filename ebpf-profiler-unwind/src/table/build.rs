//! Builds the rows of a table in the order of their addresses.

use ebpf_programs::abi::table::{ALIGNMENT, NO_DATA};

use super::image::Image;
use super::rules::{CANNOT, Packed, Rules};

/// A table under construction.
pub(crate) struct Builder {
    rules: Rules,
    image: Image,
    /// Last address of the current page.
    page_end: u64,
    /// Number of the rule behind the last row.
    current: u16,
    /// Address of the last row, or [`NOWHERE`].
    last: u64,
    /// Number of rows that exceed the table's limits.
    dropped: u32,
}

/// A finished table, and the number of rows that exceeded its limits.
pub(crate) struct Built {
    pub(crate) image: Vec<u8>,
    pub(crate) dropped: u32,
}

impl Builder {
    /// Creates a table whose first row is at `first`.
    pub(crate) fn new(first: u64) -> Builder {
        let mut image = Image::new(first & !(ALIGNMENT - 1));
        Builder {
            page_end: image.begin_page(first),
            image,
            rules: Rules::new(),
            current: NO_DATA,
            last: NOWHERE,
            dropped: 0,
        }
    }

    /// Adds a row: `rule` is in effect from `address` on. Addresses must not decrease.
    #[inline(always)]
    pub(crate) fn push(&mut self, address: u64, rule: Packed) {
        if let Some(number) = self.rules.recent(rule) {
            if number == self.current {
                return;
            }
            if address > self.last && address <= self.page_end {
                self.image.push(address, number);
                self.last = address;
                self.current = number;
                return;
            }
            return self.add(address, number);
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
    }

    #[cold]
    fn drop_rule(&mut self) -> u16 {
        self.dropped += 1;
        CANNOT
    }

    #[inline(never)]
    fn add(&mut self, address: u64, number: u16) {
        if address == self.last {
            // Replaces the last row, which has the same address.
            self.current = self.image.pop();
            self.last = NOWHERE;
            if number == self.current {
                return;
            }
        }
        if self.image.is_full() {
            self.dropped += 1;
            return self.end_with_cannot(address);
        }
        if address > self.page_end {
            self.page_end = self.image.begin_page(address);
        }
        self.image.push(address, number);
        self.last = address;
        self.current = number;
    }

    /// Ends the table with a row that cannot be unwound, as it is full.
    fn end_with_cannot(&mut self, address: u64) {
        if self.current != CANNOT {
            self.image.begin_page(address);
            self.image.push(address, CANNOT);
            self.current = CANNOT;
        }
        self.page_end = 0;
    }

    /// Returns the rules so far.
    pub(crate) fn rules(&self) -> &[Packed] {
        self.rules.list()
    }

    /// Lays out the table.
    pub(crate) fn finish(self) -> Built {
        Built { image: self.image.finish(self.rules.list()), dropped: self.dropped }
    }
}

/// Stands for no row.
const NOWHERE: u64 = u64::MAX;
