//! A section of call frame information and its reader.
//!
//! ```text
//!   section  ├─ piece 0 ─┼─ piece 1 ─┼─ piece 2 ─┼ ...      8 KiB each, with the beginning of the next
//!   left          3            0           41               entries still expected
//!   slots    [ piece 7 + ][ piece 0 + ][ piece 2 + ]        pieces without expected entries are evicted first
//! ```
//!
//! Most files describe functions in the order of their addresses: one slot suffices, since a piece
//! is finished when the next one is needed. New memory costs as much as reading again from the page
//! cache. For other orders there are more slots, up to 3.5 MB, and the least recently used ones are
//! evicted.

use ebpf_profiler_core::elf::Elf;

use super::entry::{self, Entry};

/// A section of call frame information.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Location of its bytes.
    pub(crate) source: Source,
    /// Size in bytes.
    pub(crate) size: usize,
    /// Virtual address of its first byte.
    pub(crate) address: u64,
    /// Framing of its entries.
    pub(crate) format: Format,
}

impl Section {
    /// Converts a virtual address to an offset in the section.
    #[inline]
    pub(crate) fn offset_of(&self, address: u64) -> Option<usize> {
        usize::try_from(address.checked_sub(self.address)?).ok().filter(|&offset| offset < self.size)
    }
}

/// Location of a section's bytes.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// At this offset in the file.
    File(u64),
    /// Decompressed in memory.
    Memory(Vec<u8>),
}

/// Framing of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `.eh_frame`: an FDE names its CIE by the distance back to it.
    EhFrame,
    /// `.eh_frame` of unknown size: it ends at the first empty entry.
    EhFrameUntilZero,
    /// `.debug_frame`: an FDE names its CIE by its offset.
    DebugFrame,
}

/// Binary logarithm of a piece's size, that size, and the number of bytes of the next piece that
/// are read along.
const SHIFT: u32 = 13;
pub(crate) const PIECE: usize = 1 << SHIFT;
const OVERLAP: usize = 256;

/// Size of a slot, in bytes.
const SLOT: usize = PIECE + OVERLAP;

/// Initial number of slots.
const INITIAL_SLOTS: usize = 8;

/// Maximum memory of the slots, including other data kept of the section.
const MAX_SLOT_BYTES: usize = 7 << 19;

/// Maximum size of an entry; real ones have less than a fiftieth.
pub(super) const MAX_ENTRY: usize = 1 << 20;

/// Reader of a section's entries in any order.
pub(crate) struct Reader<'a> {
    elf: &'a Elf,
    section: &'a Section,
    pieces: Vec<Piece>,
    /// Maximum number of slots.
    most: usize,
    slots: Vec<Slot>,
    /// Slots whose pieces are finished.
    free: Vec<u16>,
    /// Contents of the slots.
    bytes: Vec<u8>,
    /// Position of the eviction clock's hand.
    hand: usize,
    /// The current piece, and the range of its bytes.
    piece: usize,
    start: usize,
    end: usize,
    /// An entry that crosses the end of a slot.
    long: Vec<u8>,
}

/// A piece of the section.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// Its slot, if it was read.
    slot: Option<u16>,
    /// Number of entries still expected.
    left: u32,
}

/// Buffer for a piece.
#[derive(Clone, Debug)]
struct Slot {
    piece: usize,
    /// `true` if it was used since the hand passed it.
    is_used: bool,
}

/// Stands for no piece.
const NO_PIECE: usize = usize::MAX;

impl<'a> Reader<'a> {
    /// Creates a reader; `others` bytes of its memory are used for other data of the section.
    pub(crate) fn new(elf: &'a Elf, section: &'a Section, others: usize) -> Reader<'a> {
        let pieces = (section.size >> SHIFT) + 1;
        Reader {
            elf,
            section,
            pieces: vec![Piece::default(); pieces],
            most: (MAX_SLOT_BYTES.saturating_sub(others) / SLOT)
                .max(INITIAL_SLOTS * INITIAL_SLOTS)
                .min(pieces),
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

    /// Returns the section.
    pub(crate) fn section(&self) -> &'a Section {
        self.section
    }

    /// Sets the number of expected entries of each [piece](PIECE); the default is 0.
    pub(crate) fn expect(&mut self, counts: Vec<u32>) {
        for (piece, count) in self.pieces.iter_mut().zip(counts) {
            piece.left = count;
        }
    }

    /// Returns the expected entry at `offset`.
    #[inline(always)]
    pub(crate) fn expected(&mut self, offset: usize) -> Option<Entry<'_>> {
        let piece = self.pieces.get_mut(offset >> SHIFT)?;
        piece.left = piece.left.saturating_sub(1);
        self.entry(offset)
    }

    /// Returns the entry at `offset`, or `None` if its length is invalid.
    #[inline(always)]
    pub(crate) fn entry(&mut self, offset: usize) -> Option<Entry<'_>> {
        self.short_entry(offset, MAX_ENTRY)
    }

    /// Returns the entry at `offset` if it has at most `limit` bytes.
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

    /// Leaves the current piece.
    fn leave(&mut self) {
        let number = std::mem::replace(&mut self.piece, NO_PIECE);
        if let Some(piece) = self.pieces.get_mut(number).filter(|piece| piece.left == 0) {
            self.free.extend(piece.slot.take());
        }
    }

    /// Returns the number of bytes of a piece in a slot.
    fn size(&self, piece: usize) -> usize {
        self.section.size.saturating_sub(piece << SHIFT).min(SLOT)
    }

    /// Reads a piece and returns its slot.
    fn load(&mut self, piece: usize) -> Option<usize> {
        let slot = self.vacate();
        let bytes = slot * SLOT..slot * SLOT + self.size(piece);
        fill(self.elf, self.section, piece << SHIFT, self.bytes.get_mut(bytes)?)?;
        self.slots.get_mut(slot)?.piece = piece;
        self.pieces.get_mut(piece)?.slot = Some(slot as u16);
        Some(slot)
    }

    /// Returns a free slot.
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
            let slots = if slot == 0 { INITIAL_SLOTS.min(self.most) } else { self.most };
            self.bytes.reserve_exact(slots * SLOT - self.bytes.len());
        }
        self.bytes.resize(end, 0);
        self.slots.push(Slot { piece: NO_PIECE, is_used: false });
        slot
    }

    /// Returns the next slot that was not used since the hand passed it.
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

/// Reads an entry of `size` bytes that crosses the end of a slot.
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

    /// Size of an entry in bytes; it ends with its number.
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

    /// Reads all entries in the order of `next` and returns the number of slots.
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
        assert_eq!(read(|number| number * 7919 % ENTRIES), MAX_SLOT_BYTES / SLOT);
    }
}
