//! Offsets of the FDEs of a section, found by following the lengths of entries.
//!
//! ```text
//!   section   [ CIE ][ FDE ][ FDE ][ FDE ][ CIE ][ FDE ]...[ end ]
//!   bits      0 0 0  1 0 0  1 0 0  1 0 0  0 0 0  1 0 0      0       one per four bytes
//! ```

use ebpf_profiler_core::elf::Elf;

use crate::bytes::Bytes;

use super::section::{self, MAX_ENTRY, Section, fill};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Starts {
    bits: Vec<u64>,
    /// Offsets that are not multiples of four, sorted: a few entries that assemblers emit.
    odd: Vec<usize>,
    /// Offsets of empty functions, if addresses have four bytes, as in nearly all files.
    pub(crate) empty: Vec<usize>,
    /// Number of FDEs.
    pub(crate) count: u32,
}

/// Bytes per read, and bytes that are decoded of each entry.
const PIECE: usize = 64 << 10;
const HEAD: usize = 16;

const WORD: usize = 4;
const BITS: usize = u64::BITS as usize;

/// Maximum number of odd and of empty ones.
const MAX_ODD: usize = 1 << 10;
const MAX_EMPTY: usize = 1 << 12;

impl Starts {
    /// Finds the FDEs of a section. Returns `None` for unusual sections: invalid or 64-bit lengths,
    /// many entries that are not made of words, many empty functions.
    pub(crate) fn of(elf: &Elf, section: &Section) -> Option<Starts> {
        let bits = vec![0; (section.size / WORD).div_ceil(BITS)];
        let mut starts = Starts { bits, odd: Vec::new(), empty: Vec::new(), count: 0 };
        let mut piece = Vec::new();
        let mut offset = 0;
        while section.size - offset >= HEAD {
            piece.resize(PIECE.min(section.size - offset), 0);
            fill(elf, section, offset, &mut piece)?;
            offset = starts.add(&piece, offset, section.size)?;
        }
        starts.is_end(elf, section, offset).then_some(starts)
    }

    /// Returns the memory for those of a section, in bytes.
    pub(crate) fn size(section: &Section) -> usize {
        section.size / WORD / 8
    }

    /// Adds the entries that begin in a `piece` of the section, and returns the offset of the next
    /// one.
    fn add(&mut self, piece: &[u8], begin: usize, end: usize) -> Option<usize> {
        let mut at = 0;
        while let Some(head) = piece.get(at..at + HEAD) {
            let mut head = Bytes(head);
            let (length, id, _, size) = (head.u32()?, head.u32()?, head.u32()?, head.u32()?);
            if length > 0 && id != 0 {
                self.note(begin + at, size)?;
            }
            let next = at + WORD + length as usize;
            let makes_sense = matches!(length, 0 | 4..) && next - at <= MAX_ENTRY && begin + next <= end;
            makes_sense.then_some(())?;
            at = next;
        }
        Some(begin + at)
    }

    #[inline]
    fn note(&mut self, offset: usize, size: u32) -> Option<()> {
        self.count += 1;
        if size == 0 {
            self.empty.push(offset);
        }
        if !offset.is_multiple_of(WORD) {
            self.odd.push(offset);
        } else {
            *self.bits.get_mut(offset / WORD / BITS)? |= 1 << (offset / WORD % BITS);
        }
        (self.odd.len() <= MAX_ODD && self.empty.len() <= MAX_EMPTY).then_some(())
    }

    /// Returns `true` if the bytes from `offset` on are empty entries.
    fn is_end(&self, elf: &Elf, section: &Section, offset: usize) -> bool {
        let mut rest = [0; HEAD];
        let rest = &mut rest[..section.size - offset];
        fill(elf, section, offset, rest).is_some()
            && rest.len().is_multiple_of(WORD)
            && rest.iter().all(|&byte| byte == 0)
    }

    /// Removes the FDE at `offset`. Returns `None` if there is none, or it was removed before.
    #[inline]
    pub(crate) fn take(&mut self, offset: usize) -> Option<()> {
        if !offset.is_multiple_of(WORD) {
            let place = self.odd.binary_search(&offset).ok()?;
            self.odd.remove(place);
            return Some(());
        }
        let bits = self.bits.get_mut(offset / WORD / BITS)?;
        let bit = 1 << (offset / WORD % BITS);
        let is_there = *bits & bit != 0;
        *bits &= !bit;
        is_there.then_some(())
    }

    /// Counts the FDEs of each piece of the section, without those of empty functions.
    pub(crate) fn counts(&self) -> Vec<u32> {
        let bits = self.bits.chunks(section::PIECE / WORD / BITS);
        let mut counts: Vec<u32> = bits.map(|bits| bits.iter().map(|bits| bits.count_ones()).sum()).collect();
        for (offsets, change) in [(&self.odd, 1), (&self.empty, -1)] {
            for offset in offsets {
                let count = &mut counts[offset / section::PIECE];
                *count = count.saturating_add_signed(change);
            }
        }
        counts
    }

    /// Keeps only those of empty functions.
    pub(crate) fn only_empty(mut self) -> Starts {
        self.bits.fill(0);
        self.odd.clear();
        for &offset in &self.empty {
            match self.bits.get_mut(offset / WORD / BITS) {
                Some(bits) if offset.is_multiple_of(WORD) => *bits |= 1 << (offset / WORD % BITS),
                _ => self.odd.push(offset),
            }
        }
        self
    }

    /// Returns `true` if an FDE is at `offset`.
    #[inline]
    pub(crate) fn has(&self, offset: usize) -> bool {
        if !offset.is_multiple_of(WORD) {
            return self.odd.binary_search(&offset).is_ok();
        }
        let bits = self.bits.get(offset / WORD / BITS);
        bits.is_some_and(|bits| bits >> (offset / WORD % BITS) & 1 != 0)
    }

    /// Iterates over the FDEs that were not removed.
    pub(crate) fn rest(&self) -> impl Iterator<Item = usize> {
        let words = self.bits.iter().enumerate().filter(|(_, bits)| **bits != 0);
        let offsets = |(number, bits): (usize, &u64)| {
            let bits = *bits;
            (0..BITS).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| (number * BITS + bit) * WORD)
        };
        words.flat_map(offsets).chain(self.odd.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_by_pieces() {
        let mut starts = Starts { bits: vec![0; 200], odd: Vec::new(), empty: Vec::new(), count: 0 };
        for (offset, size) in [(0, 1), (8, 0), (8188, 1), (8192, 1), (16385, 1), (16386, 0), (49_152, 1)] {
            starts.note(offset, size).unwrap();
        }
        assert_eq!(starts.counts(), [2, 1, 1, 0, 0, 0, 1]);
    }
}
