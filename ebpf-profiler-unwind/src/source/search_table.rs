//! `.eh_frame_hdr`: where functions begin and where `.eh_frame` describes them, sorted by the linker for whoever throws
//! an exception.
//!
//! ```text
//!   version: u8 = 1, encodings of pointer, count and table: u8 each, pointer to .eh_frame: i32, count: u32,
//!   { function: i32, description: i32 } for each, from the header's own address
//! ```

use ebpf_profiler_core::elf::{Elf, segment_type};

use crate::bytes::Bytes;
use crate::eh_frame::section::Section;

/// The table of a file, whatever it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchTable {
    /// Where its first pair is in the file.
    offset: u64,
    /// What its numbers count from.
    address: u64,
    /// How many pairs there are.
    pub(crate) count: u32,
}

/// The encodings that every linker writes: pointer relative to its place, plain count, pairs relative to the header.
const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

const HEADER: u64 = 12;
const PAIR: usize = 8;

/// How many bytes are read at a time.
const PIECE: usize = 16 << 10;

impl SearchTable {
    /// The table that belongs to `section`, if it has the usual form.
    pub(super) fn of(elf: &Elf, section: &Section) -> Option<SearchTable> {
        let header = elf.segments().iter().find(|segment| segment.kind == segment_type::PT_GNU_EH_FRAME)?;
        let data = elf.bytes(header.offset, HEADER).ok()?;
        let mut bytes = Bytes(&data);
        let is_usual = bytes.take(4)? == USUAL;
        let pointer = i64::from(bytes.u32()?.cast_signed());
        let count = bytes.u32()?;
        let size = HEADER + u64::from(count) * PAIR as u64;
        let belongs = header.address.wrapping_add(4).wrapping_add_signed(pointer) == section.address;
        let offset = header.offset + HEADER;
        (is_usual && belongs && size <= header.file_size).then_some(SearchTable {
            offset,
            address: header.address,
            count,
        })
    }

    /// Functions and their descriptions, as addresses; fewer where they can't be read.
    pub(crate) fn pairs(self, elf: &Elf) -> Pairs<'_> {
        Pairs { elf, table: self, read: 0, piece: Vec::new(), at: 0 }
    }
}

/// Reads a search table, piece by piece.
pub(crate) struct Pairs<'a> {
    elf: &'a Elf,
    table: SearchTable,
    /// How many pairs were read so far.
    read: u32,
    piece: Vec<u8>,
    /// Where the next pair is in the piece.
    at: usize,
}

impl Pairs<'_> {
    /// Whether all were given.
    pub(crate) fn had_all(&self) -> bool {
        self.read == self.table.count && self.at == self.piece.len()
    }

    /// Gives no more, as if they couldn't be read.
    pub(crate) fn give_up(&mut self) {
        self.at = usize::MAX;
    }

    fn turn(&mut self) -> Option<()> {
        let count = (self.table.count - self.read).min((PIECE / PAIR) as u32);
        let offset = self.table.offset.checked_add(u64::from(self.read) * PAIR as u64)?;
        self.piece.resize(count as usize * PAIR, 0);
        self.elf.fill(offset, &mut self.piece).ok()?;
        self.read += count;
        self.at = 0;
        Some(())
    }
}

impl Iterator for Pairs<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        if self.at == self.piece.len() {
            self.turn()?;
        }
        let pair = u64::from_le_bytes(*self.piece.get(self.at..)?.first_chunk()?);
        self.at += PAIR;
        let from_header = |word: u32| self.table.address.wrapping_add_signed(word.cast_signed().into());
        Some((from_header(pair as u32), from_header((pair >> 32) as u32)))
    }
}
