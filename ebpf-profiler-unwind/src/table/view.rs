//! Reads the parts of a table, whatever its bytes say.

use ebpf_programs::abi::table::{GROUP_PAGES, Group, Header, PAGE, Page, Row, Rule};

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
        let header = Header {
            base: long(image, 0)?,
            groups: word(8)?,
            rules: word(12)?,
            rows: word(16)?,
            size: word(20)?,
            version: word(24)?,
            reserved: word(28)?,
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

    /// Group `number` of the pages.
    pub(super) fn group(&self, number: u32) -> Option<Group> {
        let at = self.header.groups_at() as usize + number as usize * size_of::<Group>();
        Some(Group { bits: word(self.image, at)?, first: word(self.image, at + 4)? })
    }

    /// Where the rows of a page are, whose place is counted in pages from the start of the table.
    pub(super) fn page(&self, place: u32) -> Option<Page> {
        let at = place as usize * size_of::<Page>();
        Some(Page { first: word(self.image, at)?, count: word(self.image, at + 4)? })
    }

    /// The pages of a group that have rows: their numbers within it, and their places.
    pub(super) fn pages_of(group: Group) -> impl Iterator<Item = (u32, u32)> {
        let numbers = (0..GROUP_PAGES).filter(move |number| group.bits >> number & 1 == 1);
        numbers.zip(0..).map(move |(number, index)| (number, group.first.wrapping_add(index)))
    }

    /// The rows of the page that `distance` from the first one lies in.
    fn page_at(&self, distance: u64) -> Option<Page> {
        let (number, page) =
            (distance / PAGE / u64::from(GROUP_PAGES), (distance / PAGE) as u32 % GROUP_PAGES);
        let number = u32::try_from(number).ok().filter(|&number| number < self.header.groups)?;
        let group = self.group(number)?;
        let bit = 1 << page;
        let lower = (group.bits & (bit - 1)).count_ones();
        if group.bits & bit == 0 { None } else { self.page(group.first.checked_add(lower)?) }
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
        let Page { first, count } = self.page_at(distance)?;
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
        self.pages().flat_map(move |(begin, page)| {
            let rows =
                (page.first..page.first.saturating_add(page.count)).map_while(move |row| self.row(row));
            rows.map(move |row| (begin.wrapping_add(row.low.into()), row.rule))
        })
    }

    /// Addresses of all pages that have rows, and where these are.
    fn pages(self) -> impl Iterator<Item = (u64, Page)> + 'a {
        let groups = (0..self.header.groups).map_while(move |number| Some((number, self.group(number)?)));
        groups.flat_map(move |(number, group)| {
            let pages = View::pages_of(group).map_while(move |(page, place)| Some((page, self.page(place)?)));
            pages.map(move |(page, entry)| {
                let number = u64::from(number) * u64::from(GROUP_PAGES) + u64::from(page);
                (self.header.base.wrapping_add(number * PAGE), entry)
            })
        })
    }
}

fn word(image: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?))
}

fn long(image: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*image.get(at..)?.first_chunk()?))
}
