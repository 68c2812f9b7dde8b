//! A section of call frame information, and how it is read: piece by piece.
//!
//! ```text
//!   section  ├─ piece 0 ─┼─ piece 1 ─┼─ piece 2 ─┼ ...      8 KiB each, with the beginning of the next
//!   slots    [ piece 7 + ][ piece 0 + ][ piece 1 + ]        in turn, those not looked at since go
//! ```
//!
//! Most files describe functions in the order of their addresses, so nearly every entry lies in a piece that is here
//! already, and a few slots do: fresh memory costs more than to read again what the kernel has in its own. Where
//! pieces are wanted back that had to go, there are more slots, up to three and a half megabytes.

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

impl Section {
    /// Where in the section a virtual address is.
    #[inline]
    pub(crate) fn offset_of(&self, address: u64) -> Option<usize> {
        usize::try_from(address.checked_sub(self.address)?).ok().filter(|&offset| offset < self.size)
    }
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

/// The binary logarithm of a piece's size, and how many bytes of the next one come along.
const SHIFT: u32 = 13;
const OVERLAP: usize = 256;

/// Bytes of a slot.
const SLOT: usize = (1 << SHIFT) + OVERLAP;

/// How many pieces are kept at least.
const FEW: usize = 8;

/// How much memory the pieces may take that are wanted back, together with what else is kept of the section.
const ROOM: usize = 7 << 19;

/// No entry is larger; real ones stay under a fiftieth of it.
pub(super) const MAX_ENTRY: usize = 1 << 20;

/// Reads a section's entries in any order.
pub(crate) struct Reader<'a> {
    elf: &'a Elf,
    section: &'a Section,
    /// How many slots there may be.
    most: u32,
    places: Vec<Place>,
    slots: Vec<Slot>,
    /// What is in the slots.
    bytes: Vec<u8>,
    /// The slot that is looked at first when one is needed.
    hand: usize,
    /// How many pieces were read so far.
    loads: u32,
    /// The current piece, and where its bytes are.
    piece: usize,
    start: usize,
    end: usize,
    /// An entry that doesn't lie in one slot.
    long: Vec<u8>,
}

/// Where a piece is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In a slot.
    Slot(u32),
    /// It had to go when so many had been read; at first, all of them.
    Gone(u32),
}

/// Room for a piece.
#[derive(Clone, Debug)]
struct Slot {
    piece: usize,
    /// Whether it was turned to since the hand came by.
    is_used: bool,
}

/// No piece has this number.
const NO_PIECE: usize = usize::MAX;

impl<'a> Reader<'a> {
    /// A reader that takes the room which `others` bytes leave that are kept of the section.
    pub(crate) fn new(elf: &'a Elf, section: &'a Section, others: usize) -> Reader<'a> {
        let pieces = (section.size >> SHIFT) + 1;
        let most = (ROOM.saturating_sub(others) / SLOT).max(FEW * FEW).min(pieces) as u32;
        Reader {
            elf,
            section,
            most,
            places: vec![Place::Gone(0); pieces],
            slots: Vec::new(),
            bytes: Vec::new(),
            hand: 0,
            loads: most,
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

    /// Entries are read in another order from now on: what had to go so far says nothing of it.
    pub(crate) fn begin_again(&mut self) {
        self.loads = self.loads.saturating_add(self.most);
    }

    /// The entry at `offset`, and where the next one begins; `None` when its length makes no sense.
    #[inline(always)]
    pub(crate) fn entry(&mut self, offset: usize) -> Option<(Entry<'_>, usize)> {
        self.short_entry(offset, MAX_ENTRY)
    }

    /// The same, where it has at most `limit` bytes.
    #[inline(always)]
    pub(crate) fn short_entry(&mut self, offset: usize, limit: usize) -> Option<(Entry<'_>, usize)> {
        let piece = offset >> SHIFT;
        if piece != self.piece {
            self.turn_to(piece)?;
        }
        let start = self.start + offset % (1 << SHIFT);
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
        // Whatever becomes of it: the current piece is none any more.
        self.piece = NO_PIECE;
        let slot = match *self.places.get(piece)? {
            Place::Slot(slot) => slot as usize,
            // Had there been as many slots as there may be, it would be here.
            Place::Gone(loads) if self.loads - loads < self.most => self.load(piece, self.most as usize)?,
            Place::Gone(_) => self.load(piece, FEW)?,
        };
        self.slots.get_mut(slot)?.is_used = true;
        self.piece = piece;
        self.start = slot * SLOT;
        self.end = self.start + self.size(piece);
        Some(())
    }

    /// How many bytes a slot has of a piece.
    fn size(&self, piece: usize) -> usize {
        self.section.size.saturating_sub(piece << SHIFT).min(SLOT)
    }

    /// Reads a piece into a new slot, if there are less than `enough`, or in place of another; which slot that is.
    fn load(&mut self, piece: usize, enough: usize) -> Option<usize> {
        let slot = self.vacate(enough);
        self.loads = self.loads.saturating_add(1);
        let bytes = slot * SLOT..slot * SLOT + self.size(piece);
        fill(self.elf, self.section, piece << SHIFT, self.bytes.get_mut(bytes)?)?;
        self.slots.get_mut(slot)?.piece = piece;
        *self.places.get_mut(piece)? = Place::Slot(slot as u32);
        Some(slot)
    }

    /// A slot without a piece.
    fn vacate(&mut self, enough: usize) -> usize {
        if self.slots.len() < enough {
            if (self.slots.len() + 1) * SLOT > self.bytes.len() {
                let slots = (self.slots.len() * 2).max(FEW).min(enough).min(self.places.len());
                self.bytes.reserve_exact(slots * SLOT - self.bytes.len());
                self.bytes.resize(slots * SLOT, 0);
            }
            self.slots.push(Slot { piece: NO_PIECE, is_used: false });
            return self.slots.len() - 1;
        }
        loop {
            let number = self.hand;
            self.hand = (number + 1) % self.slots.len();
            let slot = &mut self.slots[number];
            if !std::mem::take(&mut slot.is_used) {
                let piece = std::mem::replace(&mut slot.piece, NO_PIECE);
                if let Some(place) = self.places.get_mut(piece) {
                    *place = Place::Gone(self.loads);
                }
                return number;
            }
        }
    }
}

/// Reads bytes of a section.
pub(super) fn fill(elf: &Elf, section: &Section, offset: usize, buffer: &mut [u8]) -> Option<()> {
    match &section.source {
        Source::File(start) => elf.fill(start.checked_add(offset as u64)?, buffer).ok(),
        Source::Memory(bytes) => {
            buffer.copy_from_slice(bytes.get(offset..)?.get(..buffer.len())?);
            Some(())
        }
    }
}
