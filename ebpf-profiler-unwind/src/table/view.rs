//! Reader of the parts of a table, valid or not.

use std::ops::Range;

use ebpf_programs::abi::table::{GROUP_BITS, Group, Header, Page, Row, Rule};

/// The bytes and the header of a table.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    image: &'a [u8],
    header: Header,
}

impl<'a> View<'a> {
    /// Parses the header. Returns `None` if it is incomplete.
    pub(super) fn new(image: &'a [u8]) -> Option<View<'a>> {
        let word = |at| word(image, at);
        let header = Header {
            base: long(image, 0)?,
            pages: word(8)?,
            rules: word(12)?,
            rows: word(16)?,
            size: word(20)?,
            version: word(24)? as u16,
            page_bits: (word(24)? >> 16) as u8,
            whole: (word(24)? >> 24) as u8,
            before: row(word(28)?),
        };
        Some(View { image, header })
    }

    pub(super) fn header(&self) -> Header {
        self.header
    }

    pub(super) fn rule(&self, number: u16) -> Option<Rule> {
        let at = self.header.rules_at() as usize + usize::from(number) * size_of::<Rule>();
        let [cfa, register, ra, fp] = word(self.image, at)?.to_le_bytes();
        let number = |index: usize| word(self.image, at + 4 * index).map(|word| word as i32);
        Some(Rule { cfa, register, ra, fp, offset: number(1)?, aux: number(2)?, fp_offset: number(3)? })
    }

    /// Returns group `number` of the pages.
    pub(super) fn group(&self, number: u32) -> Option<Group> {
        let at = self.header.groups_at() as usize + number as usize * size_of::<Group>();
        Some(Group { first: word(self.image, at)?, pages: word(self.image, at + 4)? })
    }

    /// Returns the value at a position counted in pages from the start of the table.
    pub(super) fn at(&self, place: u32) -> Option<Page> {
        Some(Page::from_le_bytes(*self.image.get(place as usize * size_of::<Page>()..)?.first_chunk()?))
    }

    /// Returns the size of a page in bytes of address space; 0 if it exceeds that.
    pub(super) fn page_size(&self) -> u64 {
        1u64.checked_shl(self.header.page_bits.into()).unwrap_or(0)
    }

    /// Returns the rows of page `number`; an empty range at their position if it has none.
    fn rows_of(&self, number: u32) -> Option<Range<u32>> {
        let Group { first, pages } = self.group(number >> GROUP_BITS)?;
        if pages == 0 {
            return Some(first..first);
        }
        let place = pages.checked_add(number % (1 << GROUP_BITS))?;
        let (low, behind) = (self.at(place)?, self.at(place.checked_add(1)?)?);
        let begin = first.checked_add(u32::from(low.wrapping_sub(first as Page)))?;
        Some(begin..begin.checked_add(u32::from(behind.wrapping_sub(low)))?)
    }

    /// Returns row `number`, counted from the start of the table.
    pub(super) fn row(&self, number: u32) -> Option<Row> {
        word(self.image, number as usize * size_of::<Row>()).map(row)
    }

    /// Returns the number of the rule for `address`.
    pub(super) fn find(&self, address: u64) -> Option<u16> {
        let (rows, number) = self.search(address)?;
        Some(self.row(rows.start.checked_add(number)?.checked_sub(1)?)?.rule)
    }

    /// Returns `true` if a row begins at `address`.
    pub(super) fn begins(&self, address: u64) -> bool {
        let last = self.search(address).filter(|&(_, number)| number > 0);
        let row = last.and_then(|(rows, number)| self.row(rows.start + number - 1));
        row.is_some_and(|row| row.low == address as u16)
    }

    /// Returns the rows of the page of `address`, and the number of those that begin at or before
    /// it.
    fn search(&self, address: u64) -> Option<(Range<u32>, u32)> {
        let number = address.checked_sub(self.header.base)?.checked_div(self.page_size())?;
        let number = u32::try_from(number).ok().filter(|&number| number < self.header.pages)?;
        let rows = self.rows_of(number)?;
        let (mut low, mut high) = (0, rows.end - rows.start);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.row(rows.start + middle)?.low <= address as u16 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some((rows, low))
    }

    /// Iterates over addresses and rule numbers of all rows.
    pub(super) fn rows(self) -> impl Iterator<Item = (u64, u16)> + 'a {
        self.pages().flat_map(move |(begin, rows)| {
            // Pages are at most as large as the range of a row's low bits.
            let address = move |row: Row| begin & !u64::from(u16::MAX) | u64::from(row.low);
            rows.map_while(move |number| self.row(number)).map(move |row| (address(row), row.rule))
        })
    }

    /// Iterates over the addresses of all pages, and their rows.
    fn pages(self) -> impl Iterator<Item = (u64, Range<u32>)> + 'a {
        let begin = move |number: u32| u64::from(number).wrapping_mul(self.page_size());
        let begin = move |number| self.header.base.wrapping_add(begin(number));
        (0..self.header.pages).map_while(move |number| Some((begin(number), self.rows_of(number)?)))
    }
}

fn row(word: u32) -> Row {
    let [a, b, c, d] = word.to_le_bytes();
    Row { low: u16::from_le_bytes([a, b]), rule: u16::from_le_bytes([c, d]) }
}

fn word(image: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?))
}

fn long(image: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*image.get(at..)?.first_chunk()?))
}
