//! Lays a table out as [`ebpf_programs::abi::table`] says.

use ebpf_programs::abi;
use ebpf_programs::abi::arena::BLOCK;
use ebpf_programs::abi::table::{Header, Page, Row, Rule};

use super::rules::Packed;

const ROW: usize = size_of::<Row>();

/// Where everything stands in a table.
struct Layout {
    directory: usize,
    /// The offset of each page's rows in the table.
    places: Vec<usize>,
    size: usize,
}

/// The finished table of these parts; `rows` are those of all pages, one page after the other.
pub(super) fn lay_out(base: u64, rules: &[Packed], pages: &[u32], rows: Vec<u8>) -> Vec<u8> {
    let pages = &pages[..pages.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1)];
    let layout = Layout::new(rules.len(), pages);
    let header = Header {
        base,
        pages: pages.len() as u32,
        directory: layout.directory as u32,
        rules: rules.len() as u32,
        rows: (rows.len() / ROW) as u32,
        size: layout.size as u32,
        version: abi::VERSION,
        reserved: [0; 4],
    };
    let mut image = spread(rows, pages, &layout);
    write_header(&mut image, &header);
    for (rule, place) in rules.iter().zip(image[size_of::<Header>()..].chunks_exact_mut(size_of::<Rule>())) {
        place.copy_from_slice(&rule.bytes());
    }
    let entries = image[layout.directory..].chunks_exact_mut(size_of::<Page>());
    for (entry, (&count, &place)) in entries.zip(pages.iter().zip(&layout.places)) {
        let first = if count == 0 { 0 } else { (place / ROW) as u32 };
        entry[..4].copy_from_slice(&first.to_le_bytes());
        entry[4..].copy_from_slice(&count.to_le_bytes());
    }
    image
}

impl Layout {
    fn new(rules: usize, pages: &[u32]) -> Layout {
        let directory = size_of::<Header>() + rules * size_of::<Rule>();
        let mut end = directory + size_of_val(pages) / size_of::<u32>() * size_of::<Page>();
        let mut place = |&count: &u32| {
            let size = count as usize * ROW;
            if end % BLOCK + size > BLOCK {
                end = end.next_multiple_of(BLOCK);
            }
            end += size;
            end - size
        };
        let places = pages.iter().map(&mut place).collect();
        Layout { directory, places, size: end }
    }
}

/// Moves each page's rows to their place, the last page first, without a second copy of the table.
fn spread(mut rows: Vec<u8>, pages: &[u32], layout: &Layout) -> Vec<u8> {
    let mut end = rows.len();
    rows.reserve_exact(layout.size - end);
    rows.resize(layout.size, 0);
    // What stands behind the page that is moved next.
    let mut next = layout.size;
    for (&count, &place) in pages.iter().zip(&layout.places).rev() {
        let size = count as usize * ROW;
        let begin = end - size;
        rows.copy_within(begin..end, place);
        rows[place + size..next].fill(0);
        (end, next) = (begin, place);
    }
    rows[..next].fill(0);
    rows
}

fn write_header(image: &mut [u8], header: &Header) {
    let words = [header.pages, header.directory, header.rules, header.rows, header.size, header.version];
    image[..8].copy_from_slice(&header.base.to_le_bytes());
    for (place, word) in image[8..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}
