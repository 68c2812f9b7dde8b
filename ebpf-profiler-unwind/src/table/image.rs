//! Lays a table out as [`ebpf_programs::abi::table`] says.

use ebpf_programs::abi;
use ebpf_programs::abi::table::{Header, Page, Row, Rule};

use super::blocks::{Blocks, Place};
use super::rules::Packed;

/// The finished table of these parts: `pages` tells where in `rows` those of each page are.
pub(super) fn lay_out(base: u64, rules: &[Packed], pages: &mut [Place], rows: Blocks) -> Vec<u8> {
    let count = pages.iter().rposition(|page| page.count > 0).map_or(0, |last| last + 1);
    let pages = &mut pages[..count];
    let directory = size_of::<Header>() + rules.len() * size_of::<Rule>();
    let mut packed = rows.pack(directory + pages.len() * size_of::<Page>(), pages);
    let entries = pages.iter().map(|&page| match page.count {
        0 => Page::default(),
        count => Page { first: (packed.start(page) / size_of::<Row>()) as u32, count },
    });
    let entries: Vec<Page> = entries.collect();
    let header = Header {
        base,
        pages: pages.len() as u32,
        directory: directory as u32,
        rules: rules.len() as u32,
        rows: entries.iter().map(|page| page.count).sum(),
        size: packed.image.len() as u32,
        version: abi::VERSION,
        reserved: [0; 4],
    };
    write_header(&mut packed.image, &header);
    write_all(&mut packed.image[size_of::<Header>()..], rules, |rule| rule.bytes());
    write_all(&mut packed.image[directory..], &entries, page_bytes);
    packed.image
}

fn write_all<T: Copy, const N: usize>(image: &mut [u8], values: &[T], bytes: impl Fn(T) -> [u8; N]) {
    for (place, &value) in image.chunks_exact_mut(N).zip(values) {
        place.copy_from_slice(&bytes(value));
    }
}

fn page_bytes(page: Page) -> [u8; size_of::<Page>()] {
    (u64::from(page.first) | u64::from(page.count) << 32).to_le_bytes()
}

fn write_header(image: &mut [u8], header: &Header) {
    let words = [header.pages, header.directory, header.rules, header.rows, header.size, header.version];
    image[..8].copy_from_slice(&header.base.to_le_bytes());
    for (place, word) in image[8..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}
