//! A section of call frame information, and how it is read: piece by piece.
//!
//! ```text
//!   section  ├─ piece 0 ─┼─ piece 1 ─┼─ piece 2 ─┼ ...      8 KiB each, with the beginning of the next
//!   left          3            0           41               entries that are still to come
//!   slots    [ piece 7 + ][ piece 0 + ][ piece 2 + ]        those of which nothing is to come go first
//! ```
//!
//! Most files describe functions in the order of their addresses, so each piece is done with when the next one is
//! needed, and one slot does: fresh memory costs as much as to read again what the kernel has in its own. In other orders
//! there are more slots, up to three and a half megabytes, and then those go that weren't looked at for long.

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

/// The binary logarithm of a piece's size, that size, and how many bytes of the next one come along.
const SHIFT: u32 = 13;
pub(crate) const PIECE: usize = 1 << SHIFT;
const OVERLAP: usize = 256;

/// Bytes of a slot.
const SLOT: usize = PIECE + OVERLAP;

/// How many slots there is room for at first.
const FEW: usize = 8;

/// How much memory the slots may take, together with what else is kept of the section.
const ROOM: usize = 7 << 19;

/// No entry is larger; real ones stay under a fiftieth of it.
pub(super) const MAX_ENTRY: usize = 1 << 20;

/// Reads a section's entries in any order.
pub(crate) struct Reader<'a> {
    elf: &'a Elf,
    section: &'a Section,
    pieces: Vec<Piece>,
    /// How many slots there may be.
    most: usize,
    slots: Vec<Slot>,
    /// Those whose pieces are done with.
    free: Vec<u16>,
    /// What is in the slots.
    bytes: Vec<u8>,
    /// The slot that is looked at first when one is needed.
    hand: usize,
    /// The current piece, and where its bytes are.
    piece: usize,
    start: usize,
    end: usize,
    /// An entry that doesn't lie in one slot.
    long: Vec<u8>,
}

/// A piece of the section.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// Where it is, if it was read.
    slot: Option<u16>,
    /// How many of its entries are still to come, as far as anybody said.
    left: u32,
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
        Reader {
            elf,
            section,
            pieces: vec![Piece::default(); pieces],
            most: (ROOM.saturating_sub(others) / SLOT).max(FEW * FEW).min(pieces),
            slots: Vec::new(),
            free: Vec::new(),
            bytes: Vec::new(),
            hand: 0,
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

    /// So many entries of each [piece](PIECE) are to come; until this is said it is none.
    pub(crate) fn expect(&mut self, counts: Vec<u32>) {
        for (piece, count) in self.pieces.iter_mut().zip(counts) {
            piece.left = count;
        }
    }

    /// The entry at `offset`, one of those that were to come.
    #[inline(always)]
    pub(crate) fn expected(&mut self, offset: usize) -> Option<Entry<'_>> {
        let piece = self.pieces.get_mut(offset >> SHIFT)?;
        piece.left = piece.left.saturating_sub(1);
        self.entry(offset)
    }

    /// The entry at `offset`; `None` when its length makes no sense.
    #[inline(always)]
    pub(crate) fn entry(&mut self, offset: usize) -> Option<Entry<'_>> {
        self.short_entry(offset, MAX_ENTRY)
    }

    /// The same, where it has at most `limit` bytes.
    #[inline(always)]
    pub(crate) fn short_entry(&mut self, offset: usize, limit: usize) -> Option<Entry<'_>> {
        let piece = offset >> SHIFT;
        if piece != self.piece {
            self.turn_to(piece)?;
        }
        let here = self.bytes.get(self.start + offset % PIECE..self.end)?;
        let size = entry::size(here).filter(|&size| size <= limit)?;
        let bytes = match here.get(..size) {
            Some(bytes) => bytes,
            None => read_long(self.elf, self.section, offset, size, &mut self.long)?,
        };
        Entry::parse(bytes, offset, self.section.format)
    }

    #[inline(never)]
    fn turn_to(&mut self, piece: usize) -> Option<()> {
        self.leave();
        let slot = match self.pieces.get(piece)?.slot {
            Some(slot) => slot.into(),
            None => self.load(piece)?,
        };
        self.slots.get_mut(slot)?.is_used = true;
        self.piece = piece;
        self.start = slot * SLOT;
        self.end = self.start + self.size(piece);
        Some(())
    }

    /// Turns from the current piece, whatever comes next.
    fn leave(&mut self) {
        let number = std::mem::replace(&mut self.piece, NO_PIECE);
        if let Some(piece) = self.pieces.get_mut(number).filter(|piece| piece.left == 0) {
            self.free.extend(piece.slot.take());
        }
    }

    /// How many bytes a slot has of a piece.
    fn size(&self, piece: usize) -> usize {
        self.section.size.saturating_sub(piece << SHIFT).min(SLOT)
    }

    /// Reads a piece; which slot it is in.
    fn load(&mut self, piece: usize) -> Option<usize> {
        let slot = self.vacate();
        let bytes = slot * SLOT..slot * SLOT + self.size(piece);
        fill(self.elf, self.section, piece << SHIFT, self.bytes.get_mut(bytes)?)?;
        self.slots.get_mut(slot)?.piece = piece;
        self.pieces.get_mut(piece)?.slot = Some(slot as u16);
        Some(slot)
    }

    /// A slot without a piece.
    fn vacate(&mut self) -> usize {
        match self.free.pop() {
            Some(slot) => slot.into(),
            None if self.slots.len() < self.most => self.add_slot(),
            None => self.take_slot(),
        }
    }

    fn add_slot(&mut self) -> usize {
        let slot = self.slots.len();
        let end = (slot + 1) * SLOT;
        if end > self.bytes.capacity() {
            let slots = if slot == 0 { FEW.min(self.most) } else { self.most };
            self.bytes.reserve_exact(slots * SLOT - self.bytes.len());
        }
        self.bytes.resize(end, 0);
        self.slots.push(Slot { piece: NO_PIECE, is_used: false });
        slot
    }

    /// The next slot that wasn't turned to since the hand came by.
    fn take_slot(&mut self) -> usize {
        loop {
            let number = self.hand;
            self.hand = (number + 1) % self.slots.len();
            let slot = &mut self.slots[number];
            if !std::mem::take(&mut slot.is_used) {
                let piece = std::mem::replace(&mut slot.piece, NO_PIECE);
                if let Some(piece) = self.pieces.get_mut(piece) {
                    piece.slot = None;
                }
                return number;
            }
        }
    }
}

/// Reads an entry of `size` bytes that doesn't lie in one slot.
#[cold]
fn read_long<'l>(
    elf: &Elf,
    section: &Section,
    offset: usize,
    size: usize,
    long: &'l mut Vec<u8>,
) -> Option<&'l [u8]> {
    section.size.checked_sub(offset).filter(|&left| size <= left)?;
    long.resize(size, 0);
    fill(elf, section, offset, long)?;
    Some(long)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry has 64 bytes and says in the end which one it is.
    const ENTRY: usize = 64;
    const ENTRIES: usize = 5 << 20 >> 6;

    fn section() -> Section {
        let entry = |number: usize| {
            let mut bytes = [0; ENTRY];
            bytes[0] = ENTRY as u8 - 4;
            bytes[ENTRY - 8..].copy_from_slice(&number.to_le_bytes());
            bytes
        };
        let source = Source::Memory((0..ENTRIES).flat_map(entry).collect());
        Section { source, size: ENTRIES * ENTRY, address: 0, format: Format::EhFrame }
    }

    /// Reads all entries, the next one being what `next` makes of a number; how many slots it took.
    fn read(next: impl Fn(usize) -> usize) -> usize {
        let elf = Elf::open(std::fs::File::open("/proc/self/exe").unwrap()).unwrap();
        let section = section();
        let mut reader = Reader::new(&elf, &section, 0);
        reader.expect(vec![(PIECE / ENTRY) as u32; section.size / PIECE]);
        for number in (0..ENTRIES).map(next) {
            let entry = reader.expected(number * ENTRY).unwrap();
            assert_eq!(entry.bytes[ENTRY - 8..], number.to_le_bytes());
        }
        assert_eq!(reader.free.len() + 1, reader.slots.len().min(reader.most));
        reader.slots.len()
    }

    #[test]
    fn entries_in_order_need_one_slot() {
        assert_eq!(read(|number| number), 1);
        assert_eq!(read(|number| ENTRIES - 1 - number), 1);
    }

    #[test]
    fn entries_of_a_few_places_need_a_few() {
        let part = ENTRIES / 4;
        assert_eq!(read(|number| number % 4 * part + number / 4), 4);
    }

    #[test]
    fn any_order_is_read_in_bounded_memory() {
        assert_eq!(read(|number| number * 7919 % ENTRIES), ROOM / SLOT);
    }
}
