//! The directory that leads from an address to the rows of its page.
//!
//! While a table grows, only pages of the smallest size are recorded. Their final size is chosen
//! when all rows are known.

use std::iter::Peekable;
use std::slice::Iter;

use ebpf_programs::abi::table::{GROUP_BITS, GROUP_ROWS, Group, Header, PAGE_BITS, Page, Row, Rule};

/// First row of a page of the smallest size.
#[derive(Clone, Copy)]
pub(super) struct Begin {
    /// Number of the page.
    pub(super) page: u32,
    /// Number of its first row, counted from the start of the table.
    pub(super) first: u32,
}

impl Begin {
    /// Returns the number of the page of `bits` bits that contains this one.
    fn page_of(&self, bits: u32) -> u32 {
        self.page >> (bits - PAGE_BITS.start())
    }
}

/// The directory of a table.
pub(super) struct Directory {
    /// Binary logarithm of the page size.
    pub(super) bits: u32,
    /// Number of pages.
    pub(super) span: u32,
    /// `true` if all groups have pages.
    pub(super) whole: bool,
    /// As in the table, except that pages are counted from 1.
    pub(super) groups: Vec<Group>,
    /// As in the table.
    pub(super) pages: Vec<Page>,
}

impl Directory {
    /// Builds the directory with the smallest pages of low cost, else with the largest. The last
    /// row is before `end`. Groups without rows get pages, too, if pages at most twice as large
    /// allow it.
    pub(super) fn of(smallest: &[Begin], end: u32) -> Directory {
        let (least, most) = PAGE_BITS.into_inner();
        let enough = (end as usize - HEADER_WORDS) / ROWS_A_WORD;
        let good = (least..most)
            .find(|&bits| {
                words(smallest, bits, false) <= enough || most_rows(smallest, end, bits + 1) > GROUP_ROWS
            })
            .unwrap_or(most);
        let whole = (good..=most.min(good + 1)).find(|&bits| {
            words(smallest, bits, true) <= enough && most_rows(smallest, end, bits) <= GROUP_ROWS
        });
        Directory::new(smallest, end, whole.unwrap_or(good), whole.is_some())
    }

    /// Merges pages of the smallest size to pages of `bits` bits.
    fn new(smallest: &[Begin], end: u32, bits: u32, whole: bool) -> Directory {
        let span = smallest.last().map_or(0, |last| last.page_of(bits) + 1);
        let [groups, pages] = numbers(smallest, bits, whole);
        let (mut groups, mut pages) = (Vec::with_capacity(groups), Vec::with_capacity(pages));
        let mut rest = smallest.iter().peekable();
        for group in 0..span.div_ceil(1 << GROUP_BITS) {
            let page = group << GROUP_BITS;
            let behind = span.min(page + (1 << GROUP_BITS));
            let next = from_page(&mut rest, page, bits);
            let has_pages = whole || next.is_some_and(|next| next.page_of(bits) < behind);
            let first = next.map_or(end, |next| next.first);
            groups.push(Group { first, pages: if has_pages { pages.len() as u32 + 1 } else { 0 } });
            if has_pages {
                let first = |page| from_page(&mut rest, page, bits).map_or(end, |begin| begin.first) as Page;
                pages.extend((page..behind).map(first));
            }
        }
        pages.push(end as Page);
        Directory { bits, span, whole, groups, pages }
    }
}

/// Size of a header in words of four bytes.
pub(super) const HEADER_WORDS: usize = size_of::<Header>() / size_of::<Row>();

/// Maximum number of padding words, between rows and rules and behind the pages.
const ZEROS: usize = (size_of::<Rule>() - 1) / size_of::<Row>() + 1;

/// Minimum number of rows per word of overhead for choosing smaller pages.
const ROWS_A_WORD: usize = 21;

/// Returns the number of groups, and the maximum number of pages, of a directory.
fn numbers(smallest: &[Begin], bits: u32, whole: bool) -> [usize; 2] {
    let group = |begin: &Begin| begin.page_of(bits) >> GROUP_BITS;
    let groups = smallest.last().map_or(0, |last| group(last) as usize + 1);
    let with_rows = || smallest.chunk_by(|one, next| group(one) == group(next)).count();
    let with_pages = if whole { groups } else { with_rows() };
    [groups, (with_pages << GROUP_BITS) + 1]
}

/// Returns the maximum number of words beside rows and rules: header, padding, directory.
fn words(smallest: &[Begin], bits: u32, whole: bool) -> usize {
    let [groups, pages] = numbers(smallest, bits, whole);
    let bytes = groups * size_of::<Group>() + pages * size_of::<Page>();
    HEADER_WORDS + ZEROS + bytes.div_ceil(size_of::<Row>())
}

/// Returns the number of rows of the largest group.
fn most_rows(smallest: &[Begin], end: u32, bits: u32) -> usize {
    let group = |begin: &Begin| begin.page_of(bits) >> GROUP_BITS;
    let mut groups = smallest.chunk_by(|one, next| group(one) == group(next)).peekable();
    let mut most = 0;
    while let Some(pages) = groups.next() {
        let end = groups.peek().map_or(end, |next| next[0].first);
        most = most.max(end - pages[0].first);
    }
    most as usize
}

/// Advances to the first page of the smallest size in or behind page `page` of `bits` bits.
fn from_page<'a>(rest: &mut Peekable<Iter<'a, Begin>>, page: u32, bits: u32) -> Option<&'a Begin> {
    while rest.next_if(|begin| begin.page_of(bits) < page).is_some() {}
    rest.peek().copied()
}
