//! Validation of tables.

use std::fmt;

use ebpf_programs::abi::VERSION;
use ebpf_programs::abi::table::{
    ALIGNMENT, GROUP_BITS, GROUP_ROWS, Group, Header, PAGE_BITS, Page, Row, Rule,
};

use super::view::View;

/// The defect of an invalid table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// Shorter than a header.
    Short,
    /// Built for another version of the format.
    Version(u32),
    /// The size in the header is not the number of bytes.
    Size(u32),
    /// The base is not aligned to the largest page size, or the last page exceeds the address
    /// space.
    Base(u64),
    /// The page size is out of range; the value is its binary logarithm.
    PageBits(u8),
    /// The parts of the encoded table, which its header lists, are misplaced or have data between
    /// them, or rule 0 is not empty.
    Parts,
    /// The number of rows in the header differs from the sum over all pages.
    Rows(u32),
    /// The last page has no rows.
    Pages(u32),
    /// The pages or rows of this group do not follow the previous group, or the number of its rows
    /// is out of range.
    Group(u32),
    /// The rows of the page with this number, counted from the start of the table, do not follow
    /// the previous page.
    Page(u32),
    /// This row, counted from the start of the table, is out of order, in the wrong page, or names
    /// a missing rule.
    Row(u32),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Short => f.write_str("shorter than a header"),
            Invalid::Version(version) => write!(f, "version {version} of the format, not {VERSION}"),
            Invalid::Size(size) => write!(f, "header has a size of {size} bytes, not that of the table"),
            Invalid::Base(base) => {
                write!(f, "first page at {base:#x} is unaligned or out of the address space")
            }
            Invalid::PageBits(bits) => write!(f, "page size of {bits} bits is out of range"),
            Invalid::Parts => f.write_str("parts are not where the header has them"),
            Invalid::Rows(rows) => write!(f, "header has {rows} rows, not those of the pages"),
            Invalid::Pages(pages) => write!(f, "last of {pages} pages has no rows"),
            Invalid::Group(group) => write!(f, "pages of group {group} are out of place"),
            Invalid::Page(page) => write!(f, "rows of page {page} are out of place"),
            Invalid::Row(row) => write!(f, "row {row} is out of place or has no rule"),
        }
    }
}

impl std::error::Error for Invalid {}

/// Checks a table for all properties that [`ebpf_programs::abi::table`] defines. An empty slice is
/// valid.
///
/// # Errors
///
/// Fails with the first defect.
pub fn validate(image: &[u8]) -> Result<(), Invalid> {
    if image.is_empty() {
        return Ok(());
    }
    let view = View::new(image).ok_or(Invalid::Short)?;
    let header = view.header();
    check_header(&header, image.len())?;
    let is_zero = |at: u64, end: u64| image[at as usize..end as usize].iter().all(|&byte| byte == 0);
    if view.rule(0) != Some(Rule::NO_DATA) || !is_zero(header.rows_end(), header.rules_at()) {
        return Err(Invalid::Parts);
    }
    let first = Place { page: (header.pages_at() / PAGE_SIZE) as u32, row: HEADER_ROWS };
    let end = (0..header.groups()).try_fold(first, |place, number| check_group(&view, number, place))?;
    let pages_end = u64::from(end.page + 1) * PAGE_SIZE;
    if u64::from(end.row) * ROW_SIZE != header.rows_end() {
        Err(Invalid::Rows(header.rows))
    } else if header.pages > 0 && view.at(end.page - 1) == Some(end.row as Page) {
        // The last page has no rows.
        Err(Invalid::Pages(header.pages))
    } else if view.at(end.page) != Some(end.row as Page)
        || pages_end.next_multiple_of(ROW_SIZE) != header.size.into()
        || !is_zero(pages_end, header.size.into())
    {
        Err(Invalid::Parts)
    } else {
        Ok(())
    }
}

/// Expected position of the next page and its rows.
#[derive(Clone, Copy)]
struct Place {
    /// In pages from the start of the table.
    page: u32,
    /// In rows from the start of the table.
    row: u32,
}

const PAGE_SIZE: u64 = size_of::<Page>() as u64;
const ROW_SIZE: u64 = size_of::<Row>() as u64;
const HEADER_ROWS: u32 = (size_of::<Header>() / size_of::<Row>()) as u32;

fn check_header(header: &Header, size: usize) -> Result<(), Invalid> {
    if u32::from(header.version) != VERSION {
        Err(Invalid::Version(header.version.into()))
    } else if header.size as usize != size {
        Err(Invalid::Size(header.size))
    } else if !header.base.is_multiple_of(ALIGNMENT) {
        Err(Invalid::Base(header.base))
    } else if !PAGE_BITS.contains(&header.page_bits.into()) {
        Err(Invalid::PageBits(header.page_bits))
    } else if header.rules == 0
        || header.rules > 1 << 16
        || header.pages_at() > size as u64
        || header.whole > 1
        || header.before != Row::default()
    {
        Err(Invalid::Parts)
    } else {
        Ok(())
    }
}

/// Checks a group at its expected position, and returns that of the next one.
fn check_group(view: &View<'_>, number: u32, place: Place) -> Result<Place, Invalid> {
    let header = view.header();
    let group = view.group(number).ok_or(Invalid::Parts)?;
    if header.whole == 0 && group == (Group { first: place.row, pages: 0 }) {
        let is_last = number + 1 == header.groups();
        return if is_last { Err(Invalid::Pages(header.pages)) } else { Ok(place) };
    }
    if group != (Group { first: place.row, pages: place.page }) {
        return Err(Invalid::Group(number));
    }
    let first = number << GROUP_BITS;
    let mut pages = first..header.pages.min(first.saturating_add(1 << GROUP_BITS));
    let end = pages.try_fold(place, |place, page| check_page(view, page, place))?;
    let rows = (end.row - place.row) as usize;
    if rows == 0 && header.whole == 0 || rows > GROUP_ROWS { Err(Invalid::Group(number)) } else { Ok(end) }
}

/// Checks page `number` at its expected position, and returns that of the next one.
fn check_page(view: &View<'_>, number: u32, place: Place) -> Result<Place, Invalid> {
    let Header { base, rules, .. } = view.header();
    let (low, behind) = view.at(place.page).zip(view.at(place.page + 1)).ok_or(Invalid::Parts)?;
    let end = place.row + u32::from(behind.wrapping_sub(low));
    if low != place.row as Page || u64::from(end) * ROW_SIZE > view.header().rows_end() {
        return Err(Invalid::Page(place.page));
    }
    let start = base.checked_add(u64::from(number) * view.page_size());
    let start = start.filter(|start| start.checked_add(view.page_size()).is_some());
    let low = start.ok_or(Invalid::Base(base))? as u16;
    let mut least = 0;
    for number in place.row..end {
        let row = view.row(number).ok_or(Invalid::Row(number))?;
        let distance = u64::from(row.low.wrapping_sub(low));
        let in_place = (least..view.page_size()).contains(&distance);
        if !in_place || u32::from(row.rule) >= rules {
            return Err(Invalid::Row(number));
        }
        least = distance + 1;
    }
    Ok(Place { page: place.page + 1, row: end })
}
