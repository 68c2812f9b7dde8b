//! Reads the parts of a table, whatever its bytes say.

use ebpf_programs::abi::table::{Header, PAGE, Page, Row, Rule};

/// A table's bytes and their header.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    image: &'a [u8],
    header: Header,
}

impl<'a> View<'a> {
    /// `None` when there isn't even a header.
    pub(super) fn new(image: &'a [u8]) -> Option<View<'a>> {
        let word = |at| word(image, at);
        let reserved: [u64; 4] = [long(image, 32)?, long(image, 40)?, long(image, 48)?, long(image, 56)?];
        let header = Header {
            base: long(image, 0)?,
            pages: word(8)?,
            directory: word(12)?,
            rules: word(16)?,
            rows: word(20)?,
            size: word(24)?,
            version: word(28)?,
            reserved,
        };
        Some(View { image, header })
    }

    pub(super) fn header(&self) -> Header {
        self.header
    }

    pub(super) fn rule(&self, number: u16) -> Option<Rule> {
        let at = size_of::<Header>() + usize::from(number) * size_of::<Rule>();
        let [cfa, register, ra, fp] = word(self.image, at)?.to_le_bytes();
        let number = |index: usize| word(self.image, at + 4 * index).map(|word| word as i32);
        Some(Rule { cfa, register, ra, fp, offset: number(1)?, aux: number(2)?, fp_offset: number(3)? })
    }

    pub(super) fn page(&self, number: u32) -> Option<Page> {
        let at = self.header.directory as usize + number as usize * size_of::<Page>();
        Some(Page { first: word(self.image, at)?, count: word(self.image, at + 4)? })
    }

    /// Row `number`, counted from the start of the table.
    pub(super) fn row(&self, number: u32) -> Option<Row> {
        let [a, b, c, d] = word(self.image, number as usize * size_of::<Row>())?.to_le_bytes();
        Some(Row { low: u16::from_le_bytes([a, b]), rule: u16::from_le_bytes([c, d]) })
    }

    /// The number of the rule for `address`.
    pub(super) fn find(&self, address: u64) -> Option<u16> {
        Some(self.find_row(address)?.rule)
    }

    /// Whether a row begins at `address`.
    pub(super) fn begins(&self, address: u64) -> bool {
        self.find_row(address).is_some_and(|row| row.low == address as u16)
    }

    fn find_row(&self, address: u64) -> Option<Row> {
        let distance = address.checked_sub(self.header.base)?;
        let page = u32::try_from(distance / PAGE).ok().filter(|&page| page < self.header.pages)?;
        let Page { first, count } = self.page(page)?;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if u64::from(self.row(first.checked_add(middle)?)?.low) <= distance % PAGE {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.row(first + low.checked_sub(1)?)
    }

    /// Addresses and numbers of rules of all rows.
    pub(super) fn rows(self) -> impl Iterator<Item = (u64, u16)> + 'a {
        (0..self.header.pages).flat_map(move |number| {
            let begin = self.header.base.wrapping_add(u64::from(number) * PAGE);
            let page = self.page(number).unwrap_or_default();
            let rows =
                (page.first..page.first.saturating_add(page.count)).map_while(move |row| self.row(row));
            rows.map(move |row| (begin.wrapping_add(row.low.into()), row.rule))
        })
    }
}

fn word(image: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?))
}

fn long(image: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*image.get(at..)?.first_chunk()?))
}
