//! A section of call frame information, and how it is read: piece by piece.
//!
//! ```text
//!   section  ├─ piece 0 ─┼─ piece 1 ─┼─ piece 2 ─┼ ...      16 KiB each, with the beginning of the next
//!   slots    [ piece 7 + ][ piece 0 + ][ piece 1 + ]        at most 160; in turn, those not looked at since go
//! ```
//!
//! Most files describe functions in the order of their addresses, so nearly every entry lies in a piece that is here
//! already, and of a section of any size two and a half megabytes are in memory. Smaller sections are one piece.

use ebpf_profiler_core::elf::Elf;

use super::entry::{self, Entry};

/// A section of call frame information.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Where its bytes are.
    pub(crate) source: Source,
    /// How many there are.
    pub(crate) size: usize,
    /// The virtual address of its first byte.
    pub(crate) address: u64,
    /// Which of the ways of framing it has.
    pub(crate) format: Format,
}

/// Where a section's bytes are.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// In the file, from this offset on.
    File(u64),
    /// Here: they were compressed.
    Memory(Vec<u8>),
}

/// The ways of framing entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `.eh_frame`: an FDE names its CIE by the distance back to it.
    EhFrame,
    /// `.eh_frame` of which only the beginning is known: it ends at the first empty entry.
    EhFrameUntilZero,
    /// `.debug_frame`: an FDE names its CIE by its offset.
    DebugFrame,
}

/// The binary logarithm of a piece's size, how many bytes of the next one come along, how many pieces are kept.
const SHIFT: u32 = 14;
const OVERLAP: usize = 256;
const SLOTS: usize = 160;

/// A section of this size is one piece.
const SMALL: usize = 3 << 20;

/// In place of that logarithm: all of the section is one piece.
const WHOLE: u32 = usize::BITS - 1;

/// No entry is larger; real ones stay under a fiftieth of it.
const MAX_ENTRY: usize = 1 << 20;

/// Reads a section's entries in any order.
pub(crate) struct Reader<'a> {
    elf: &'a Elf,
    section: &'a Section,
    shift: u32,
    /// Bytes of a slot.
    slot: usize,
    /// The slot of each piece, counted from one; 0 for those that aren't here.
    places: Vec<u16>,
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    /// The slot that is looked at first when one is needed.
    hand: usize,
    /// Whether entries are read one behind the other: what came first is kept then, to be there when it is read again.
    passes: bool,
    /// The current piece, and where its bytes are.
    piece: usize,
    start: usize,
    end: usize,
    /// An entry that doesn't lie in one slot.
    long: Vec<u8>,
}

/// A place for a piece.
#[derive(Clone, Copy, Debug)]
struct Slot {
    piece: usize,
    /// Whether it was turned to since the hand came by.
    is_used: bool,
}

/// No piece has this number.
const NO_PIECE: usize = usize::MAX;

impl<'a> Reader<'a> {
    pub(crate) fn new(elf: &'a Elf, section: &'a Section) -> Reader<'a> {
        let shift = if section.size <= SMALL { WHOLE } else { SHIFT };
        Reader::in_pieces(elf, section, shift)
    }

    fn in_pieces(elf: &'a Elf, section: &'a Section, shift: u32) -> Reader<'a> {
        let pieces = (section.size >> shift) + 1;
        let slot = section.size.min((1 << shift) + OVERLAP);
        Reader {
            elf,
            section,
            shift,
            slot,
            places: vec![0; pieces],
            slots: Vec::new(),
            bytes: vec![0; pieces.min(SLOTS) * slot],
            hand: 0,
            passes: false,
            piece: NO_PIECE,
            start: 0,
            end: 0,
            long: Vec::new(),
        }
    }

    /// The section.
    pub(crate) fn section(&self) -> &'a Section {
        self.section
    }

    /// Whether all entries are about to be read, one behind the other.
    pub(crate) fn pass_through(&mut self, passes: bool) {
        self.passes = passes;
    }

    /// The entry at `offset`, and where the next one begins; `None` when its length makes no sense.
    #[inline(always)]
    pub(crate) fn entry(&mut self, offset: usize) -> Option<(Entry<'_>, usize)> {
        self.short_entry(offset, MAX_ENTRY)
    }

    /// The same, where it has at most `limit` bytes.
    #[inline(always)]
    pub(crate) fn short_entry(&mut self, offset: usize, limit: usize) -> Option<(Entry<'_>, usize)> {
        let piece = offset >> self.shift;
        if piece != self.piece {
            self.turn_to(piece)?;
        }
        let start = self.start + (offset & ((1 << self.shift) - 1));
        let here = self.bytes.get(start..self.end)?;
        let size = entry::size(here)?;
        if size > limit {
            return None;
        }
        if size > here.len() {
            return self.long_entry(offset, size);
        }
        Entry::parse(self.bytes.get(start..start + size)?, offset, self.section.format)
    }

    #[cold]
    fn long_entry(&mut self, offset: usize, size: usize) -> Option<(Entry<'_>, usize)> {
        if self.section.size.checked_sub(offset)? < size {
            return None;
        }
        self.long.resize(size, 0);
        fill(self.elf, self.section, offset, &mut self.long)?;
        Entry::parse(&self.long, offset, self.section.format)
    }

    #[inline(never)]
    fn turn_to(&mut self, piece: usize) -> Option<()> {
        let slot = match *self.places.get(piece)? {
            0 => self.load(piece)?,
            place => usize::from(place) - 1,
        };
        self.slots.get_mut(slot)?.is_used = true;
        self.piece = piece;
        self.start = slot * self.slot;
        self.end = self.start + self.size(piece);
        Some(())
    }

    /// How many bytes a slot has of a piece.
    fn size(&self, piece: usize) -> usize {
        self.section.size.saturating_sub(piece << self.shift).min(self.slot)
    }

    /// Reads a piece; in which slot it is.
    fn load(&mut self, piece: usize) -> Option<usize> {
        let slot = self.vacate();
        let bytes = slot * self.slot..slot * self.slot + self.size(piece);
        fill(self.elf, self.section, piece << self.shift, self.bytes.get_mut(bytes)?)?;
        *self.places.get_mut(piece)? = slot as u16 + 1;
        self.slots.get_mut(slot)?.piece = piece;
        Some(slot)
    }

    /// A slot without a piece.
    fn vacate(&mut self) -> usize {
        // Whatever becomes of it: the current piece is none any more.
        self.piece = NO_PIECE;
        if self.slots.len() < SLOTS {
            self.slots.push(Slot { piece: NO_PIECE, is_used: false });
            return self.slots.len() - 1;
        }
        loop {
            let number = if self.passes { SLOTS - 1 } else { self.hand };
            self.hand = (number + 1) % SLOTS;
            let slot = &mut self.slots[number];
            if !std::mem::take(&mut slot.is_used) || self.passes {
                let piece = std::mem::replace(&mut slot.piece, NO_PIECE);
                if let Some(place) = self.places.get_mut(piece) {
                    *place = 0;
                }
                return number;
            }
        }
    }
}

/// Reads bytes of a section.
fn fill(elf: &Elf, section: &Section, offset: usize, buffer: &mut [u8]) -> Option<()> {
    match &section.source {
        Source::File(start) => elf.fill(start.checked_add(offset as u64)?, buffer).ok(),
        Source::Memory(bytes) => {
            buffer.copy_from_slice(bytes.get(offset..)?.get(..buffer.len())?);
            Some(())
        }
    }
}
