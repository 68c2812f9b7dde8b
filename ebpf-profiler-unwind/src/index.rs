//! The described functions of a file, sorted by address.
//!
//! Eight bytes per function: the distance from the first code, and the place of its description.
//! Descriptions are read again when the table is built, which is cheaper than keeping them decoded.

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::internal::go::Pclntab;

use crate::code::Code;
use crate::eh_frame::cie::Functions;
use crate::eh_frame::cies::Cies;
use crate::eh_frame::entry::{Entry, Kind};
use crate::eh_frame::fde::Fde;
use crate::eh_frame::section::{Format, PIECE, Reader, Section};
use crate::source::Go;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// `distance << 32 | place`
    keys: Vec<u64>,
    /// The CIEs of each section.
    pub(crate) cies: Vec<Cies>,
    /// Number of malformed entries.
    pub(crate) malformed: u32,
}

/// One described function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Start of the function.
    pub(crate) begin: u64,
    /// Start of the next function.
    pub(crate) next: u64,
    /// Place of its description.
    pub(crate) place: Place,
}

/// The place of a description.
///
/// Encoded as a number: two bits for the source, in order of preference, thirty for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An entry at an offset in a section of call frame information.
    Frames { section: usize, offset: usize },
    /// A function of Go's table.
    Go { number: usize },
}

const SOURCE_SHIFT: u32 = 30;
const GO: u32 = 3;

impl Place {
    fn number(self) -> u64 {
        match self {
            Place::Frames { section, offset } => (section << SOURCE_SHIFT | offset) as u64,
            Place::Go { number } => u64::from(GO << SOURCE_SHIFT) | number as u64,
        }
    }

    fn of(number: u32) -> Place {
        let rest = (number & ((1 << SOURCE_SHIFT) - 1)) as usize;
        match number >> SOURCE_SHIFT {
            GO => Place::Go { number: rest },
            section => Place::Frames { section: section as usize, offset: rest },
        }
    }
}

impl Index {
    /// Builds the index of the functions in sections of call frame information and in Go's table.
    pub(crate) fn of(elf: &Elf, sections: &[Section], go: Option<&Go>, code: &Code) -> Index {
        let mut index = Index::default();
        for (number, section) in sections.iter().enumerate() {
            index.add_section(number, &mut Reader::new(elf, section, 0), code);
        }
        if let Some(go) = go {
            index.add_go(&go.table, code);
        }
        index.sort();
        index
    }

    fn add_section(&mut self, number: usize, reader: &mut Reader<'_>, code: &Code) {
        let Section { address, size, .. } = *reader.section();
        let mut cies = Cies::new(reader);
        let mut offset = 0;
        while offset < size {
            let Some(entry) = reader.entry(offset) else {
                self.malformed += 1;
                break;
            };
            let next = offset + entry.bytes.len();
            match entry.kind {
                Kind::Fde(cie) => {
                    let range = match cies.last(cie) {
                        Some(functions) => range(address, &entry, functions),
                        None => another_cie(offset, cie, &mut cies, reader),
                    };
                    self.add_function(
                        Place::Frames { section: number, offset },
                        range,
                        reader.section(),
                        code,
                    );
                }
                Kind::Empty if entry.format == Format::EhFrameUntilZero => break,
                // A section linked from several objects may contain the terminator of each.
                Kind::Empty | Kind::Cie => {}
            }
            offset = next;
        }
        self.cies.push(cies);
    }

    #[inline]
    fn add_function(&mut self, place: Place, range: Option<Range<u64>>, section: &Section, code: &Code) {
        match range {
            // Linkers that fold equal functions leave empty descriptions behind.
            Some(range) if range.is_empty() => {}
            Some(range) if self.add(range.start, place, code).is_some() => {}
            // The linker dropped the function and kept its description.
            Some(range) if range.start == DROPPED && section.format == Format::DebugFrame => {}
            _ => self.malformed += 1,
        }
    }

    fn add_go(&mut self, table: &Pclntab, code: &Code) {
        for number in 0..table.len().min(1 << SOURCE_SHIFT) {
            let entry = table.entry(number).and_then(|entry| self.add(entry, Place::Go { number }, code));
            self.malformed += u32::from(entry.is_none());
        }
    }

    /// Adds a function. Returns `None` if there is no code at its start.
    #[inline]
    fn add(&mut self, begin: u64, place: Place, code: &Code) -> Option<()> {
        code.end(begin)?;
        self.keys.push((begin - code.start()) << 32 | place.number());
        Some(())
    }

    /// Sorts by address. Of several descriptions of one address the first in the file is used.
    fn sort(&mut self) {
        let falls = self.keys.windows(2).filter(|pair| pair[0] > pair[1]).count();
        if falls > self.keys.len() / 64 {
            sort(&mut self.keys);
        } else if falls > 0 {
            self.keys.sort();
        }
        self.keys.dedup_by_key(|key| *key >> 32);
        self.keys.shrink_to_fit();
    }

    /// Returns the size of the index in bytes.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&self.keys[..])
    }

    /// Returns the number of functions that each piece of section `number` describes.
    pub(crate) fn counts(&self, number: usize, section: &Section) -> Vec<u32> {
        let mut counts = vec![0; section.size / PIECE + 1];
        for key in &self.keys {
            match Place::of(*key as u32) {
                Place::Frames { section, offset } if section == number => counts[offset / PIECE] += 1,
                _ => {}
            }
        }
        counts
    }

    /// Iterates over all functions.
    pub(crate) fn items(&self, code: &Code) -> impl Iterator<Item = Item> {
        let start = code.start();
        let begin = move |key: &u64| start + (key >> 32);
        let following = self.keys.iter().skip(1).map(begin).chain([u64::MAX]);
        let item =
            move |(key, next): (&u64, u64)| Item { begin: begin(key), next, place: Place::of(*key as u32) };
        self.keys.iter().zip(following).map(item)
    }
}

/// Sorts by address with a radix sort, lowest digit first.
///
/// In files whose sections consist of many short pieces, comparisons would take a tenth of the
/// build time. The places within a section, and the sections, come in order, and the sort is
/// stable.
fn sort(keys: &mut Vec<u64>) {
    const DIGIT: u32 = 11;
    let highest = keys.iter().max().map_or(0, |key| key >> 32);
    let mut sorted = vec![0; keys.len()];
    let mut shift = 32;
    while shift < 64 && highest >> (shift - 32) != 0 {
        let digit = |key: u64| (key >> shift) as usize & ((1 << DIGIT) - 1);
        let mut ends = [0usize; 1 << DIGIT];
        keys.iter().for_each(|&key| ends[digit(key)] += 1);
        let mut begin = 0;
        for end in &mut ends {
            begin += std::mem::replace(end, begin);
        }
        for &key in keys.iter() {
            let place = &mut ends[digit(key)];
            sorted[*place] = key;
            *place += 1;
        }
        std::mem::swap(keys, &mut sorted);
        shift += DIGIT;
    }
}

/// Address of descriptions whose functions the linker left out.
const DROPPED: u64 = 0;

/// Returns the range of an FDE.
#[inline(always)]
fn range(address: u64, entry: &Entry<'_>, functions: Functions) -> Option<Range<u64>> {
    Some(Fde::parse(address, entry, functions)?.range)
}

/// Returns the range of the FDE at `offset`, whose CIE is not that of the previous one.
#[cold]
fn another_cie(offset: usize, cie: usize, cies: &mut Cies, reader: &mut Reader<'_>) -> Option<Range<u64>> {
    let functions = cies.find(cie, reader)?;
    let address = reader.section().address;
    range(address, &reader.entry(offset)?, functions)
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn sorted_by_address_and_otherwise_left_in_order() {
        let mut random = 1u64;
        let mut next = |bits: u32| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            random >> (64 - bits)
        };
        for bits in [0, 1, 10, 11, 12, 25, 32] {
            let address = |bits, next: &mut dyn FnMut(u32) -> u64| if bits == 0 { 0 } else { next(bits) };
            let mut keys: Vec<u64> = (0..1000).map(|place| address(bits, &mut next) << 32 | place).collect();
            let mut expected = keys.clone();
            expected.sort();
            sort(&mut keys);
            assert_eq!(keys, expected, "{bits} bits");
        }
    }
}
