//! Lays out a table as [`ebpf_programs::abi::table`] defines.
//!
//! Rows come first and never move; parts that are known only at the end follow. So a table is never
//! in memory twice. memory twice, and nothing in it moves.

use ebpf_programs::abi;
use ebpf_programs::abi::table::{Group, Header, NO_DATA, PAGE_BITS, Page, Row};

use super::directory::{Begin, Directory, HEADER_WORDS};
use super::rules::Packed;

/// A table under construction, with pages of the smallest size.
pub(super) struct Image {
    base: u64,
    /// Space for the header, then rows.
    words: Vec<Word>,
    /// Pages with rows; the last one may be empty.
    pages: Vec<Begin>,
}

/// Four bytes of a table.
type Word = [u8; 4];

impl Image {
    /// Creates a table whose first page begins at `base`.
    pub(super) fn new(base: u64) -> Image {
        Image { base, words: vec![[0; 4]; HEADER_WORDS], pages: Vec::new() }
    }

    /// Begins the page of `address` and returns its last address.
    pub(super) fn begin_page(&mut self, address: u64) -> u64 {
        let bits = *PAGE_BITS.start();
        let size = 1u64 << bits;
        let first = self.words.len() as u32;
        self.pages.pop_if(|last| last.first == first);
        make_room(&mut self.pages, 1);
        self.pages.push(Begin { page: ((address - self.base) >> bits) as u32, first });
        make_room(&mut self.words, size as usize);
        address | (size - 1)
    }

    /// Appends a row to the current page.
    #[inline(always)]
    pub(super) fn push(&mut self, address: u64, rule: u16) {
        let ([a, b], [c, d]) = ((address as u16).to_le_bytes(), rule.to_le_bytes());
        self.words.push([a, b, c, d]);
    }

    /// Removes the last row and returns the rule of the one before.
    pub(super) fn pop(&mut self) -> u16 {
        self.words.pop();
        self.words.last().map_or(NO_DATA, |&[_, _, a, b]| u16::from_le_bytes([a, b]))
    }

    /// Returns `true` if there is no space for a further page.
    pub(super) fn is_full(&self) -> bool {
        self.words.len() >= MAX_ROWS
    }

    /// Returns the finished table.
    pub(super) fn finish(mut self, rules: &[Packed]) -> Vec<u8> {
        let end = self.words.len() as u32;
        self.pages.pop_if(|last| last.first == end);
        let directory = Directory::of(&self.pages, end);
        let header = self.header(rules.len(), &directory);
        let size = header.size as usize / size_of::<Word>();
        self.words.reserve_exact(size - self.words.len());
        self.words.resize(header.rules_at() as usize / size_of::<Word>(), [0; 4]);
        let mut image = self.words.into_flattened();
        image.extend(rules.iter().flat_map(|rule| rule.bytes()));
        let pages_at = (header.pages_at() / size_of::<Page>() as u64) as u32;
        let place = |pages: u32| pages.checked_sub(1).map_or(0, |number| pages_at + number);
        let words = |group: &Group| [group.first, place(group.pages)];
        image.extend(directory.groups.iter().flat_map(words).flat_map(u32::to_le_bytes));
        image.extend(directory.pages.iter().flat_map(|page| page.to_le_bytes()));
        image.resize(header.size as usize, 0);
        write_header(&mut image, &header);
        image
    }

    fn header(&self, rules: usize, directory: &Directory) -> Header {
        let header = Header {
            base: self.base,
            pages: directory.span,
            rules: rules as u32,
            rows: (self.words.len() - HEADER_WORDS) as u32,
            size: 0,
            version: abi::VERSION as u16,
            page_bits: directory.bits as u8,
            whole: directory.whole.into(),
            before: Row::default(),
        };
        let pages = directory.pages.len().next_multiple_of(size_of::<Word>() / size_of::<Page>());
        Header { size: header.pages_at() as u32 + (pages * size_of::<Page>()) as u32, ..header }
    }
}

/// Grows in small steps: doubling would cost as much memory as the table itself.
fn make_room<T>(list: &mut Vec<T>, more: usize) {
    let needed = list.len() + more;
    if needed > list.capacity() {
        list.reserve_exact(4 * more + LEAST_ROOM + needed / 16);
    }
}

/// Minimum step.
const LEAST_ROOM: usize = 256;

/// Maximum number of rows; real files have less than a tenth.
const MAX_ROWS: usize = 64 << 20;

fn write_header(image: &mut [u8], header: &Header) {
    let last = u32::from(header.version) | u32::from(header.page_bits) << 16 | u32::from(header.whole) << 24;
    let words = [header.pages, header.rules, header.rows, header.size, last];
    image[..8].copy_from_slice(&header.base.to_le_bytes());
    for (place, word) in image[8..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}
