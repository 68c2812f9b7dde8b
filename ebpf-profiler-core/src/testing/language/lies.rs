//! Memory that lies.

use std::cell::Cell;

use crate::elf::Elf;
use crate::elf::segment_type::PT_LOAD;
use crate::language::{Memory, Unreadable};

/// Reads of memory at most for one question.
const MAX_READS: u64 = 100_000;

/// Bytes read at most for one question.
const MAX_BYTES: u64 = 64 << 20;

/// Load bias of the runtime's file. Pointers lead to addresses from here on.
pub(super) const START: u64 = 0x5000_0000_0000;

/// Number of bytes to which pointers lead.
pub(super) const SIZE: u64 = 1 << 28;

/// The contents of a runtime's file in memory, by virtual address.
pub(super) struct Image(Vec<(u64, Vec<u8>)>);

impl Image {
    pub(super) fn of(elf: &Elf) -> Image {
        let loaded = elf.segments().iter().filter(|segment| segment.kind == PT_LOAD);
        let contents = loaded.filter_map(|segment| {
            let mut bytes = vec![0; usize::try_from(segment.file_size).ok()?];
            elf.read(segment.address, &mut bytes).ok()?;
            Some((segment.address, bytes))
        });
        Image(contents.collect())
    }

    /// Returns the bytes from an address on, to the end of their segment.
    fn from(&self, address: u64) -> Option<&[u8]> {
        let mut found = self.0.iter().filter_map(|(start, bytes)| {
            bytes.get(usize::try_from(address.checked_sub(*start)?).ok()?..).filter(|bytes| !bytes.is_empty())
        });
        found.next()
    }
}

/// Memory that answers every question with noise, the same each time; of some pages nothing.
pub(super) struct Lies<'i> {
    seed: u64,
    /// The runtime's file, if memory has its contents.
    file: Option<&'i Image>,
    reads: Cell<u64>,
    bytes: Cell<u64>,
}

impl<'i> Lies<'i> {
    pub(super) fn new(seed: u64, file: Option<&'i Image>) -> Lies<'i> {
        Lies { seed, file, reads: Cell::new(0), bytes: Cell::new(0) }
    }

    /// Fails if too much was read since the last call.
    pub(super) fn check(&self, doing: &str) -> Result<(), String> {
        let is_exhausted = self.is_exhausted();
        let (reads, bytes) = (self.reads.take(), self.bytes.take());
        if is_exhausted {
            return Err(format!("{doing} takes {reads} reads of {bytes} bytes where memory lies"));
        }
        Ok(())
    }

    /// Returns `true` if too much was read. Then nothing is readable any more, so that the question
    /// ends.
    fn is_exhausted(&self) -> bool {
        self.reads.get() > MAX_READS || self.bytes.get() > MAX_BYTES
    }

    /// Returns the word at an address that is readable everywhere.
    pub(super) fn word(&self, address: u64) -> u64 {
        let word = Noise(self.seed.wrapping_mul(31) ^ address >> 3).next();
        // Some words are small, and half of them lead somewhere.
        match word % 8 {
            0 => word >> 56,
            1 => word >> 44,
            2..6 => START | word >> 36 & !7,
            _ => word,
        }
    }
}

impl Memory for Lies<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        self.reads.set(self.reads.get() + 1);
        self.bytes.set(self.bytes.get() + buffer.len() as u64);
        if self.is_exhausted() {
            return Err(Unreadable);
        }
        let of_file = |at: u64| self.file.and_then(|file| file.from(at.wrapping_sub(START)));
        let contents = of_file(address);
        if let Some(contents) = contents.and_then(|contents| contents.get(..buffer.len())) {
            buffer.copy_from_slice(contents);
            return Ok(());
        }
        let is_hole = Noise(self.seed ^ address >> 12).next().is_multiple_of(8);
        if contents.is_none() && is_hole || address > 1 << 63 {
            return Err(Unreadable);
        }
        for (at, byte) in (0..).map(|index| address.wrapping_add(index)).zip(buffer) {
            let of_file = of_file(at).and_then(|contents| contents.first());
            *byte = of_file.copied().unwrap_or_else(|| self.word(at).to_le_bytes()[at as usize % 8]);
        }
        Ok(())
    }
}

/// Numbers without sense.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
