//! Lays a table out as [`ebpf_programs::abi::table`] says.
//!
//! Rows come first and stand where they stay: behind them comes whatever is known only in the end. So the table is never in
//! memory twice, and nothing in it moves.

use std::iter::Peekable;
use std::slice::Iter;

use ebpf_programs::abi;
use ebpf_programs::abi::table::{
    GROUP_BITS, Group, Header, NO_DATA, PAGE_BITS, PAGE_ROWS, Page, ROW, Row, Rule,
};

use super::rules::Packed;

/// A table that grows row by row, the smallest possible page after page.
pub(super) struct Image {
    base: u64,
    /// Room for the header, then rows.
    words: Vec<Word>,
    /// The smallest pages that have rows; the last one may have none yet.
    pages: Vec<Begin>,
}

/// Four bytes of a table.
type Word = [u8; 4];

/// Words of a header, and words at most between rows and rules.
const HEADER_WORDS: usize = size_of::<Header>() / size_of::<Word>();
const ZEROS: usize = size_of::<Rule>() / size_of::<Word>() - 1;

/// Where the rows of a page begin.
#[derive(Clone, Copy)]
struct Begin {
    /// The number of the page.
    page: u32,
    /// Its first row, counted from the start of the table.
    first: u32,
}

impl Image {
    /// A table whose first page begins at `base`.
    pub(super) fn new(base: u64) -> Image {
        Image { base, words: vec![[0; 4]; HEADER_WORDS], pages: Vec::new() }
    }

    /// Goes on to the page of `address`; its last address.
    pub(super) fn begin_page(&mut self, address: u64) -> u64 {
        let bits = *PAGE_BITS.start();
        let size = 1u64 << bits;
        let first = self.words.len() as u32;
        self.pages.pop_if(|last| last.first == first);
        self.pages.push(Begin { page: ((address - self.base) >> bits) as u32, first });
        self.make_room(size as usize);
        address | (size - 1)
    }

    /// Room for so many rows is made in small steps: doubling would cost as much memory as the table itself.
    fn make_room(&mut self, rows: usize) {
        let needed = self.words.len() + rows;
        if needed > self.words.capacity() {
            self.words.reserve_exact(4 * rows + needed / 16);
        }
    }

    /// Adds a row of the page at work, behind all rows before.
    #[inline(always)]
    pub(super) fn push(&mut self, address: u64, rule: u16) {
        let ([a, b], [c, d]) = ((address as u16).to_le_bytes(), rule.to_le_bytes());
        self.words.push([a, b, c, d]);
    }

    /// Takes the last row away; the rule of the one before.
    pub(super) fn pop(&mut self) -> u16 {
        self.words.pop();
        self.words.last().map_or(NO_DATA, |&[_, _, a, b]| u16::from_le_bytes([a, b]))
    }

    /// Whether there is no room for a further page.
    pub(super) fn is_full(&self) -> bool {
        self.words.len() >= MAX_ROWS
    }

    /// The finished table.
    pub(super) fn finish(mut self, rules: &[Packed]) -> Vec<u8> {
        let end = self.words.len() as u32;
        self.pages.pop_if(|last| last.first == end);
        let directory = self.directory(end);
        let header = self.header(rules.len(), &directory);
        let size = header.size as usize / size_of::<Word>();
        self.words.reserve_exact(size - self.words.len());
        self.words.resize(header.rules_at() as usize / size_of::<Word>(), [0; 4]);
        let mut image = self.words.into_flattened();
        image.extend(rules.iter().flat_map(|rule| rule.bytes()));
        let pages_at = header.pages_at() as u32 / size_of::<Word>() as u32;
        let place = |group: Group| if group & ROW == 0 { group + pages_at } else { group };
        image.extend(directory.groups.iter().flat_map(|&group| place(group).to_le_bytes()));
        image.extend(directory.pages.iter().flat_map(|page| page.to_le_bytes()));
        write_header(&mut image, &header);
        image
    }

    /// The directory of the smallest pages that cost little, or else of the largest.
    fn directory(&self, end: u32) -> Directory {
        let (smallest, largest) = PAGE_BITS.into_inner();
        let enough = (end as usize - HEADER_WORDS) / ROWS_A_WORD;
        let good = (smallest..largest).find(|&bits| {
            words(&self.pages, bits) <= enough || most_rows(&self.pages, end, bits + 1) > PAGE_ROWS
        });
        Directory::new(&self.pages, end, good.unwrap_or(largest))
    }

    fn header(&self, rules: usize, directory: &Directory) -> Header {
        let header = Header {
            base: self.base,
            pages: directory.span,
            rules: rules as u32,
            rows: (self.words.len() - HEADER_WORDS) as u32,
            size: 0,
            version: abi::VERSION as u16,
            page_bits: directory.bits as u16,
            before: Row::default(),
        };
        let pages = directory.pages.len() * size_of::<Page>();
        Header { size: header.pages_at() as u32 + pages as u32, ..header }
    }
}

/// Rows at most; real files stay under a tenth of it.
const MAX_ROWS: usize = 64 << 20;

/// Smaller pages are taken as long as there are so many rows for each word that is neither row nor rule.
const ROWS_A_WORD: usize = 24;

impl Begin {
    /// The number of the page of so many bits that this one is a part of.
    fn page_of(&self, bits: u32) -> u32 {
        self.page >> (bits - PAGE_BITS.start())
    }
}

/// How many words there are at most beside rows and rules: the header, zeros, the directory.
fn words(smallest: &[Begin], bits: u32) -> usize {
    let group = |begin: &Begin| begin.page_of(bits) >> GROUP_BITS;
    let with_rows = smallest.chunk_by(|one, next| group(one) == group(next)).count();
    let groups = smallest.last().map_or(0, |last| group(last) as usize + 1);
    HEADER_WORDS + ZEROS + groups + (with_rows << GROUP_BITS) + 1
}

/// How many rows the page has that has most.
fn most_rows(smallest: &[Begin], end: u32, bits: u32) -> usize {
    let mut pages = smallest.chunk_by(|one, next| one.page_of(bits) == next.page_of(bits)).peekable();
    let mut most = 0;
    while let Some(page) = pages.next() {
        let end = pages.peek().map_or(end, |next| next[0].first);
        most = most.max(end - page[0].first);
    }
    most as usize
}

/// What leads from an address to rows.
struct Directory {
    /// Of how many bits an address within a page is.
    bits: u32,
    /// How many pages there are.
    span: u32,
    /// As in the table, but that pages are counted from the first one on.
    groups: Vec<Group>,
    /// As in the table.
    pages: Vec<Page>,
}

impl Directory {
    /// Pages of so many bits, put together from smallest ones; rows end at `end`.
    fn new(smallest: &[Begin], end: u32, bits: u32) -> Directory {
        let span = smallest.last().map_or(0, |last| last.page_of(bits) + 1);
        let (mut groups, mut pages) = (Vec::new(), Vec::new());
        let mut rest = smallest.iter().peekable();
        for group in 0..span.div_ceil(1 << GROUP_BITS) {
            let first = group << GROUP_BITS;
            let behind = span.min(first + (1 << GROUP_BITS));
            let next = from_page(&mut rest, first, bits);
            match next.filter(|next| next.page_of(bits) >= behind) {
                Some(next) => groups.push(ROW | (next.first - 1)),
                None => {
                    groups.push(pages.len() as u32);
                    let begin = |page| from_page(&mut rest, page, bits).map_or(end, |begin| begin.first);
                    pages.extend((first..behind).map(begin));
                }
            }
        }
        pages.push(end);
        Directory { bits, span, groups, pages }
    }
}

/// Goes on to the first of the smallest pages that is a part of page `page` of so many bits, or lies behind it.
fn from_page<'a>(rest: &mut Peekable<Iter<'a, Begin>>, page: u32, bits: u32) -> Option<&'a Begin> {
    while rest.next_if(|begin| begin.page_of(bits) < page).is_some() {}
    rest.peek().copied()
}

fn write_header(image: &mut [u8], header: &Header) {
    let last = u32::from(header.version) | u32::from(header.page_bits) << 16;
    let words = [header.pages, header.rules, header.rows, header.size, last];
    image[..8].copy_from_slice(&header.base.to_le_bytes());
    for (place, word) in image[8..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}
