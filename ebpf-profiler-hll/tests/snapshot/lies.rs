//! Memory of a snapshot that lies.

use std::cell::Cell;

use ebpf_profiler_core::language::{Memory, Unreadable};

use super::Sparse;

/// Memory of a snapshot in which words were replaced.
pub(crate) struct Lies<'a> {
    honest: &'a Sparse,
    memory: Sparse,
    seed: u64,
    /// Number of reads after which all memory is gone.
    end: u64,
    /// One read in this number returns other bytes; 0 for no read.
    changes: u64,
    /// `true` if memory that was not recorded is full of noise instead of unmapped.
    has_noise: bool,
    reads: Cell<u64>,
    total: Cell<u64>,
    bytes: Cell<u64>,
}

/// Kinds of lies.
const KINDS: u64 = 8;

impl<'a> Lies<'a> {
    /// Replaces words of a snapshot's memory, others for each seed.
    pub(crate) fn new(honest: &'a Sparse, seed: u64) -> Lies<'a> {
        let mut random = Random(seed.wrapping_mul(0x1000_0001));
        let mut memory = honest.clone();
        let one_in = 4 << (random.next() % 8);
        for (_, bytes) in &mut memory.0 {
            for word in bytes.as_chunks_mut::<8>().0 {
                if random.next().is_multiple_of(one_in) {
                    *word = lie(seed % KINDS, u64::from_le_bytes(*word), honest, &mut random).to_le_bytes();
                }
            }
        }
        Lies {
            honest,
            memory,
            seed,
            end: if seed % KINDS == 5 { random.next() % 64 } else { u64::MAX },
            changes: if seed % KINDS == 6 { 1 + random.next() % 16 } else { 0 },
            has_noise: random.next().is_multiple_of(2),
            reads: Cell::new(0),
            total: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    /// Returns the numbers of reads and bytes since the last call.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.reads.take(), self.bytes.take())
    }
}

/// Returns a replacement of a word.
fn lie(kind: u64, word: u64, honest: &Sparse, random: &mut Random) -> u64 {
    const LARGE: [u64; 8] = [
        u64::MAX,
        i64::MAX as u64,
        1 << 32,
        0xffff_ffff,
        0x7fff_ffff,
        1 << 20,
        (1 << 24) - 1,
        0xffff_ffff << 32,
    ];
    let is_pointer = honest.piece(word & ((1 << 48) - 1)).is_some();
    match kind {
        // Another address, with the same tag.
        1 if is_pointer => random.address(honest) & !7 | word & 7,
        // A length in either half.
        2 if !is_pointer => match random.next() % 3 {
            0 => LARGE[random.next() as usize % LARGE.len()],
            1 => word & !0xffff_ffff | LARGE[random.next() as usize % LARGE.len()] >> 32,
            _ => word & 0xffff_ffff | LARGE[random.next() as usize % LARGE.len()] << 32,
        },
        // Null, small or unmapped.
        3 if is_pointer => [0, 1, 8, u64::MAX, u64::MAX - 7, 1 << 47, word + 1][random.next() as usize % 7],
        0 | 4 => word ^ 1 << (random.next() % 64),
        5.. => lie(random.next() % 5, word, honest, random),
        _ => word,
    }
}

impl Memory for Lies<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        self.reads.set(self.reads.get() + 1);
        self.total.set(self.total.get() + 1);
        self.bytes.set(self.bytes.get() + buffer.len() as u64);
        if self.total.get() > self.end {
            return Err(Unreadable);
        }
        if self.memory.read(address, buffer).is_err() {
            if !self.has_noise || address >> 47 != 0 {
                return Err(Unreadable);
            }
            self.fill_with_noise(address, buffer);
        }
        if self.changes != 0 && self.total.get().is_multiple_of(self.changes) && !buffer.is_empty() {
            let mut random = Random(self.seed ^ self.total.get());
            let at = random.next() as usize % buffer.len();
            buffer[at] ^= random.next() as u8;
        }
        Ok(())
    }
}

impl Lies<'_> {
    /// Fills a buffer with words that are the same each time: numbers, and addresses of the
    /// snapshot.
    fn fill_with_noise(&self, address: u64, buffer: &mut [u8]) {
        for (at, byte) in (address..).zip(buffer) {
            let mut random = Random(self.seed ^ at >> 3);
            let word = match random.next() % 4 {
                0 => random.next() >> 56,
                1 => random.next() & 0xffff,
                2 => random.address(self.honest),
                _ => random.next(),
            };
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
    }
}

/// A sequence of numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns an address in the memory of a snapshot.
    fn address(&mut self, memory: &Sparse) -> u64 {
        let Some((start, bytes)) = memory.0.get(self.next() as usize % memory.0.len().max(1)) else {
            return 0;
        };
        start + self.next() % bytes.len().max(1) as u64
    }
}
