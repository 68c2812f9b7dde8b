//! Whether a table keeps its promises.

use std::fmt;

use ebpf_programs::abi::VERSION;
use ebpf_programs::abi::table::{GROUP_PAGES, Group, Header, PAGE, PAGE_ROWS, Page, Row, Rule};

use super::view::View;

/// What is wrong with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// Fewer bytes than a header has.
    Short,
    /// Built for another version of the format.
    Version(u32),
    /// The header's size isn't the number of bytes.
    Size(u32),
    /// The first page doesn't begin at a multiple of a page's size, or the last lies beyond the address space.
    Base(u64),
    /// The parts of the table are not those that the header tells of, rule 0 says something, or there is something between
    /// the parts.
    Parts,
    /// The header's number of rows isn't that of the pages together.
    Rows(u32),
    /// The pages of this group don't follow those of the group before.
    Group(u32),
    /// The rows of this page, counted from the start of the table, don't follow those of the page before, or are too many.
    Page(u32),
    /// This row, counted from the start of the table, is out of order or names a rule that isn't there.
    Row(u32),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Short => f.write_str("shorter than a header"),
            Invalid::Version(version) => write!(f, "version {version} of the format, not {VERSION}"),
            Invalid::Size(size) => write!(f, "the header tells a size of {size} bytes"),
            Invalid::Base(base) => write!(f, "the first page can't begin at {base:#x}"),
            Invalid::Parts => f.write_str("the parts are not those that the header tells of"),
            Invalid::Rows(rows) => write!(f, "the header tells of {rows} rows"),
            Invalid::Group(group) => write!(f, "the pages of group {group} lie where they must not"),
            Invalid::Page(page) => write!(f, "the rows of page {page} lie where they must not"),
            Invalid::Row(row) => write!(f, "row {row} is out of order or has no rule"),
        }
    }
}

impl std::error::Error for Invalid {}

/// Holds a table against everything that [`ebpf_programs::abi::table`] promises; no bytes at all are a table, too.
///
/// # Errors
///
/// The first promise that it breaks.
pub fn validate(image: &[u8]) -> Result<(), Invalid> {
    if image.is_empty() {
        return Ok(());
    }
    let view = View::new(image).ok_or(Invalid::Short)?;
    let header = view.header();
    check_header(&header, image.len())?;
    let between = header.rows_end() as usize..header.rules_at() as usize;
    if view.rule(0) != Some(Rule::NO_DATA) || image[between].iter().any(|&byte| byte != 0) {
        return Err(Invalid::Parts);
    }
    let first = Place { page: header.pages_at() / PAGE_SIZE, row: size_of::<Header>() as u64 / ROW_SIZE };
    let end = (0..header.groups).try_fold(first, |place, number| check_group(&view, number, place))?;
    if end.row * ROW_SIZE != header.rows_end() {
        Err(Invalid::Rows(header.rows))
    } else if end.page * PAGE_SIZE != header.size.into() {
        Err(Invalid::Parts)
    } else {
        Ok(())
    }
}

const PAGE_SIZE: u64 = size_of::<Page>() as u64;
const ROW_SIZE: u64 = size_of::<Row>() as u64;

/// Where the next page and its rows should be.
#[derive(Clone, Copy)]
struct Place {
    /// In pages from the start of the table.
    page: u64,
    /// In rows from the start of the table.
    row: u64,
}

fn check_header(header: &Header, size: usize) -> Result<(), Invalid> {
    if header.version != VERSION {
        Err(Invalid::Version(header.version))
    } else if header.size as usize != size {
        Err(Invalid::Size(header.size))
    } else if !header.base.is_multiple_of(PAGE) {
        Err(Invalid::Base(header.base))
    } else if header.rules == 0
        || header.rules > 1 << 16
        || header.pages_at() > size as u64
        || header.reserved != 0
    {
        Err(Invalid::Parts)
    } else {
        Ok(())
    }
}

/// Where the pages behind a group should be.
fn check_group(view: &View<'_>, number: u32, place: Place) -> Result<Place, Invalid> {
    let group = view.group(number).ok_or(Invalid::Parts)?;
    if u64::from(group.first) != place.page {
        return Err(Invalid::Group(number));
    }
    check_addresses(view.header().base, number, group)?;
    View::pages_of(group).try_fold(place, |place, _| check_page(view, place))
}

/// Whether a group ends before the address space does, as far as it has rows.
fn check_addresses(base: u64, number: u32, group: Group) -> Result<(), Invalid> {
    let Some(last) = group.bits.checked_ilog2() else { return Ok(()) };
    let pages = u64::from(number) * u64::from(GROUP_PAGES) + u64::from(last) + 1;
    let end = base.checked_add(pages * PAGE);
    end.map(drop).ok_or(Invalid::Base(base))
}

/// Where the page behind the one at `place` should be.
fn check_page(view: &View<'_>, place: Place) -> Result<Place, Invalid> {
    let number = u32::try_from(place.page).map_err(|_| Invalid::Parts)?;
    let page = view.page(number).ok_or(Invalid::Parts)?;
    let end = u64::from(page.first) + u64::from(page.count);
    let follows = u64::from(page.first) == place.row && end * ROW_SIZE <= view.header().rows_end();
    if page.count == 0 || page.count as usize > PAGE_ROWS || !follows {
        return Err(Invalid::Page(number));
    }
    check_rows(view, page)?;
    Ok(Place { page: place.page + 1, row: end })
}

fn check_rows(view: &View<'_>, page: Page) -> Result<(), Invalid> {
    let mut least = 0;
    for number in page.first..page.first + page.count {
        let row = view.row(number).ok_or(Invalid::Row(number))?;
        let low = u32::from(row.low);
        let in_order = if number == page.first { low == 0 } else { low >= least };
        if !in_order || u32::from(row.rule) >= view.header().rules {
            return Err(Invalid::Row(number));
        }
        least = low + 1;
    }
    Ok(())
}
