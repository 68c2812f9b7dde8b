//! Lays a table out as [`ebpf_programs::abi::table`] says.
//!
//! Rows come first and stand where they stay: behind them comes whatever is known only in the end. So the table is never in
//! memory twice, and nothing in it moves.

use ebpf_programs::abi;
use ebpf_programs::abi::arena::BLOCK;
use ebpf_programs::abi::table::{GROUP_PAGES, Group, Header, Page, Row};

use super::rules::Packed;

/// A table that grows by the rows of one page after another.
pub(super) struct Image {
    base: u64,
    /// Room for the header, then rows.
    bytes: Vec<u8>,
    /// As in the table, but that pages are counted from the first one on.
    groups: Vec<Group>,
    pages: Vec<Page>,
}

impl Image {
    /// A table whose first group begins at `base`.
    pub(super) fn new(base: u64) -> Image {
        Image { base, bytes: vec![0; size_of::<Header>()], groups: Vec::new(), pages: Vec::new() }
    }

    /// How many bytes there are so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the rows of a page, which is behind all pages before; a page without rows leaves no trace.
    pub(super) fn add(&mut self, page: u32, rows: &[u8]) {
        if rows.is_empty() {
            return;
        }
        let group = (page / GROUP_PAGES) as usize;
        if group >= self.groups.len() {
            self.groups.resize(group + 1, Group { bits: 0, first: self.pages.len() as u32 });
        }
        self.groups[group].bits |= 1 << (page % GROUP_PAGES);
        let first = (self.bytes.len() / size_of::<Row>()) as u32;
        self.pages.push(Page { first, count: (rows.len() / size_of::<Row>()) as u32 });
        self.make_room(rows.len());
        self.bytes.extend_from_slice(rows);
    }

    /// Room is made in small steps: doubling would cost as much memory as the table itself.
    fn make_room(&mut self, size: usize) {
        let needed = self.bytes.len() + size;
        if needed > self.bytes.capacity() {
            self.bytes.reserve_exact(size + BLOCK + needed / 16);
        }
    }

    /// The finished table.
    pub(super) fn finish(mut self, rules: &[Packed]) -> Vec<u8> {
        let header = self.header(rules.len());
        let pages_at = (header.pages_at() / size_of::<Page>() as u64) as u32;
        self.groups.iter_mut().for_each(|group| group.first += pages_at);
        self.bytes.reserve_exact(header.size as usize - self.bytes.len());
        self.bytes.resize(header.rules_at() as usize, 0);
        self.bytes.extend(rules.iter().flat_map(|rule| rule.bytes()));
        self.bytes.extend(self.groups.iter().flat_map(|&Group { bits, first }| pair(bits, first)));
        self.bytes.extend(self.pages.iter().flat_map(|&Page { first, count }| pair(first, count)));
        write_header(&mut self.bytes, &header);
        self.bytes
    }

    fn header(&self, rules: usize) -> Header {
        let rows = (self.bytes.len() - size_of::<Header>()) / size_of::<Row>();
        let header = Header {
            base: self.base,
            groups: self.groups.len() as u32,
            rules: rules as u32,
            rows: rows as u32,
            version: abi::VERSION,
            ..Header::default()
        };
        let pages = self.pages.len() * size_of::<Page>();
        Header { size: header.pages_at() as u32 + pages as u32, ..header }
    }
}

fn pair(low: u32, high: u32) -> [u8; 8] {
    (u64::from(low) | u64::from(high) << 32).to_le_bytes()
}

fn write_header(image: &mut [u8], header: &Header) {
    let words = [header.groups, header.rules, header.rows, header.size, header.version, header.reserved];
    image[..8].copy_from_slice(&header.base.to_le_bytes());
    for (place, word) in image[8..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}
