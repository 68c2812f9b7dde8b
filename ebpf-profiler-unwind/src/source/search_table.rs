//! The search table of `.eh_frame_hdr`, read in pieces.

use ebpf_profiler_core::elf::{EhFrameHdr, Elf};

use crate::eh_frame::section::Section;

/// Search table of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchTable {
    header: EhFrameHdr,
}

const PAIR: usize = EhFrameHdr::PAIR;

/// Number of bytes per read.
const PIECE: usize = 16 << 10;

impl SearchTable {
    /// Returns the table that belongs to `section`, if it has the usual form.
    pub(super) fn of(elf: &Elf, section: &Section) -> Option<SearchTable> {
        let header = EhFrameHdr::of(elf)?;
        let belongs = header.eh_frame() == Some(section.address) && header.count() > 0;
        belongs.then_some(SearchTable { header })
    }

    /// Returns the number of pairs.
    pub(crate) fn count(self) -> u32 {
        self.header.count()
    }

    /// Iterates over functions and their FDEs, as addresses, up to the first that cannot be read.
    pub(crate) fn pairs(self, elf: &Elf) -> Pairs<'_> {
        Pairs { elf, table: self, read: 0, piece: Vec::new(), at: 0 }
    }
}

/// Reader of a search table.
pub(crate) struct Pairs<'a> {
    elf: &'a Elf,
    table: SearchTable,
    /// Number of pairs read so far.
    read: u32,
    piece: Vec<u8>,
    /// Position of the next pair in the piece.
    at: usize,
}

impl Pairs<'_> {
    /// Returns `true` if all pairs were returned.
    pub(crate) fn is_complete(&self) -> bool {
        self.read == self.table.count() && self.at == self.piece.len()
    }

    /// Ends the iteration, as after a failed read.
    pub(crate) fn stop(&mut self) {
        self.at = usize::MAX;
    }

    fn turn(&mut self) -> Option<()> {
        let count = (self.table.count() - self.read).min((PIECE / PAIR) as u32);
        let offset = self.table.header.offset_of(self.read)?;
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
        let pair = *self.piece.get(self.at..)?.first_chunk()?;
        self.at += PAIR;
        Some(self.table.header.decode(pair))
    }
}
