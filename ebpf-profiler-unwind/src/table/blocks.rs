//! The rows of all pages, in blocks that no page's rows cross.
//!
//! A finished page goes into the block where it leaves the least room; without that, every twentieth byte of a
//! table would be padding. In the end the emptiest blocks fill the room behind what stands in front. Nothing else
//! moves, as one block is kept free for that from the start, and the table is never in memory twice:
//!
//! ```text
//!   while building                                  in the image
//!   (free)  block 0  block 1  block 2  block 3      header, rules, directory, 1   block 0   block 3   rest of 2
//!           full     few      half     full         and some of 2: a block
//! ```

use ebpf_programs::abi::arena::BLOCK;
use ebpf_programs::abi::table::Row;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Blocks {
    bytes: Vec<u8>,
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// How many bytes are in use.
    used: usize,
    /// Which block it was at first.
    number: u32,
}

/// Where the rows of one page are, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    block: u32,
    offset: u32,
    pub(super) count: u32,
}

impl Place {
    fn size(self) -> usize {
        self.count as usize * size_of::<Row>()
    }
}

/// All rows behind room for what stands in front of them, and where each block has come to stand.
pub(super) struct Packed {
    pub(super) image: Vec<u8>,
    front: usize,
    starts: Vec<usize>,
}

/// How many blocks are looked at for room: more of them hardly find any.
const OPEN: usize = 16;

/// In place of a block's number: right behind the front.
const FRONT: u32 = u32::MAX;

impl Blocks {
    /// How many bytes there are, padding included.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the rows of a page: a block at most.
    pub(super) fn add(&mut self, rows: &[u8]) -> Place {
        if rows.is_empty() {
            return Place::default();
        }
        let open = self.blocks.len().saturating_sub(OPEN)..self.blocks.len();
        let fitting = open.filter(|&block| self.blocks[block].used + rows.len() <= BLOCK);
        let block = fitting.max_by_key(|&block| self.blocks[block].used).unwrap_or_else(|| self.open());
        let offset = self.blocks[block].used;
        let start = start_of(block) + offset;
        if start == self.bytes.len() {
            self.bytes.extend_from_slice(rows);
        } else {
            self.bytes[start..start + rows.len()].copy_from_slice(rows);
        }
        self.blocks[block].used += rows.len();
        Place { block: block as u32, offset: offset as u32, count: (rows.len() / size_of::<Row>()) as u32 }
    }

    /// Another block, with room made in small steps: doubling would cost as much memory as the table itself.
    fn open(&mut self) -> usize {
        let number = self.blocks.len();
        let size = start_of(number);
        if size + BLOCK > self.bytes.capacity() {
            self.bytes.reserve_exact(size + BLOCK + size / 16 - self.bytes.len());
        }
        self.bytes.resize(size, 0);
        self.blocks.push(Block { used: 0, number: number as u32 });
        number
    }

    /// Puts everything behind `front` bytes that the caller fills.
    pub(super) fn pack(mut self, front: usize, pages: &mut [Place]) -> Packed {
        let mut starts = vec![0; self.blocks.len()];
        self.bytes.resize(start_of(self.blocks.len()), 0);
        let room = front.next_multiple_of(BLOCK) - front;
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let mut last_number = None;
        while last.is_empty() && !self.blocks.is_empty() {
            let emptiest =
                (0..self.blocks.len()).min_by_key(|&position| self.blocks[position].used).unwrap_or(0);
            last_number = Some(self.blocks[emptiest].number);
            self.split(emptiest, room, &mut first, &mut last, pages);
        }
        let end = front + first.len();
        let begin = if last.is_empty() { end } else { end.next_multiple_of(BLOCK) };
        for (position, block) in self.blocks.iter().enumerate() {
            starts[block.number as usize] = begin + position * BLOCK;
        }
        if let Some(number) = last_number {
            starts[number as usize] = begin + self.blocks.len() * BLOCK;
        }
        self.bytes.extend_from_slice(&last);
        let mut image = shift(self.bytes, begin);
        image[front..end].copy_from_slice(&first);
        Packed { image, front, starts }
    }

    /// Takes out a block: as many of its pages as there is room for come `first`, the others `last`.
    fn split(
        &mut self,
        position: usize,
        room: usize,
        first: &mut Vec<u8>,
        last: &mut Vec<u8>,
        pages: &mut [Place],
    ) {
        let block = self.blocks.swap_remove(position);
        for page in pages.iter_mut().filter(|page| page.block == block.number && page.count > 0) {
            let rows = &self.bytes[start_of(position) + page.offset as usize..][..page.size()];
            let fits = first.len() + rows.len() <= room;
            let to = if fits { &mut *first } else { &mut *last };
            *page =
                Place { block: if fits { FRONT } else { block.number }, offset: to.len() as u32, ..*page };
            to.extend_from_slice(rows);
        }
        // The last block takes its place.
        let rest = self.bytes.len() - BLOCK;
        self.bytes.copy_within(rest.., start_of(position));
        self.bytes.truncate(rest);
    }
}

impl Packed {
    /// Where rows have come to stand in the image.
    pub(super) fn start(&self, place: Place) -> usize {
        let start = if place.block == FRONT { self.front } else { self.starts[place.block as usize] };
        start + place.offset as usize
    }
}

/// Where a block starts while the table is built: behind the one that is kept free.
fn start_of(block: usize) -> usize {
    (block + 1) * BLOCK
}

/// Moves what stands behind the free block to `begin`, which is hardly ever somewhere else.
fn shift(mut bytes: Vec<u8>, begin: usize) -> Vec<u8> {
    let size = bytes.len() - BLOCK;
    if begin > BLOCK {
        bytes.reserve_exact(begin - BLOCK);
        bytes.resize(begin + size, 0);
        bytes.copy_within(BLOCK..BLOCK + size, begin);
        bytes[BLOCK..begin].fill(0);
    }
    bytes.truncate(begin + size);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of these sizes, each filled with its number, behind a front of this size.
    fn check(sizes: &[usize], front: usize) -> usize {
        let mut blocks = Blocks::default();
        let pages = sizes.iter().enumerate();
        let mut places: Vec<_> = pages.map(|(number, &size)| blocks.add(&vec![number as u8; size])).collect();
        let packed = blocks.pack(front, &mut places);
        for (number, (&size, &place)) in sizes.iter().zip(&places).enumerate() {
            let start = packed.start(place);
            assert!(start >= front);
            assert_eq!(start / BLOCK, (start + size - 1) / BLOCK, "page {number} crosses a block");
            assert!(
                packed.image[start..start + size].iter().all(|&byte| byte == number as u8),
                "page {number}"
            );
        }
        packed.image.len()
    }

    #[test]
    fn what_fits_into_one_block_has_no_padding() {
        assert_eq!(check(&[], 96), 96);
        assert_eq!(check(&[4], 96), 100);
        assert_eq!(check(&[20_000, 30_000, 40], 1000), 51_040);
    }

    #[test]
    fn pages_fill_the_room_that_others_leave() {
        assert_eq!(check(&[40_000, 40_000, 25_000, 20_000], 1000), BLOCK + 65_000);
        assert_eq!(check(&[BLOCK, BLOCK, BLOCK], 1000), 4 * BLOCK);
        assert_eq!(check(&[60_000, 100, 60_000, 100], BLOCK), BLOCK + BLOCK + 60_000);
        assert_eq!(check(&[60_000, 60_000, 60_000, 4], 70_000), 3 * BLOCK + 60_000);
    }

    #[test]
    fn a_block_is_split_to_fill_the_first() {
        assert_eq!(check(&[20_000, 20_000, 20_000, 30_000], 6000), BLOCK + 40_000);
    }
}
