//! Whether a table keeps its promises.

use std::fmt;

use ebpf_programs::abi::VERSION;
use ebpf_programs::abi::arena::BLOCK;
use ebpf_programs::abi::table::{Header, PAGE, PAGE_ROWS, Page, Row, Rule};

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
    /// Rules or directory reach into what follows them, or rule 0 says something.
    Parts,
    /// The header's number of rows isn't that of the pages together.
    Rows(u32),
    /// The rows of this page lie outside of the table, cross a block, or are too many.
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
            Invalid::Parts => f.write_str("rules, directory and rows overlap"),
            Invalid::Rows(rows) => write!(f, "the header tells of {rows} rows"),
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
    if view.rule(0) != Some(Rule::NO_DATA) {
        return Err(Invalid::Parts);
    }
    let rows = (0..header.pages).try_fold(0, |rows, number| Ok(rows + check_page(&view, number)?))?;
    if rows == header.rows { Ok(()) } else { Err(Invalid::Rows(header.rows)) }
}

fn check_header(header: &Header, size: usize) -> Result<(), Invalid> {
    let rules_end = size_of::<Header>() as u64 + u64::from(header.rules) * size_of::<Rule>() as u64;
    let directory_end = u64::from(header.directory) + u64::from(header.pages) * size_of::<Page>() as u64;
    let end = header.base.checked_add(u64::from(header.pages) * PAGE);
    if header.version != VERSION {
        Err(Invalid::Version(header.version))
    } else if header.size as usize != size {
        Err(Invalid::Size(header.size))
    } else if !header.base.is_multiple_of(PAGE) || end.is_none() {
        Err(Invalid::Base(header.base))
    } else if header.rules == 0
        || header.rules > 1 << 16
        || !header.directory.is_multiple_of(8)
        || u64::from(header.directory) < rules_end
        || directory_end > size as u64
        || header.reserved != [0; 4]
    {
        Err(Invalid::Parts)
    } else {
        Ok(())
    }
}

/// How many rows a page has.
fn check_page(view: &View<'_>, number: u32) -> Result<u32, Invalid> {
    let header = view.header();
    let page = view.page(number).ok_or(Invalid::Parts)?;
    if page.count == 0 {
        return Ok(0);
    }
    let row = size_of::<Row>() as u64;
    let (begin, size) = (u64::from(page.first) * row, u64::from(page.count) * row);
    let directory_end = u64::from(header.directory) + u64::from(header.pages) * size_of::<Page>() as u64;
    let one_block = begin / BLOCK as u64 == (begin + size - 1) / BLOCK as u64;
    let inside = begin >= directory_end && begin + size <= header.size.into();
    if page.count as usize > PAGE_ROWS || !one_block || !inside {
        return Err(Invalid::Page(number));
    }
    check_rows(view, page)?;
    Ok(page.count)
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
