//! The CIEs of a section: bytes that stay, while those of functions come and go.

use std::ops::Range;

use hashbrown::HashMap;

use crate::arch::Registers;

use super::cie::{Cie, Functions};
use super::entry::{Entry, Kind};
use super::section::{Format, Reader};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Cies {
    format: Format,
    /// The virtual address of the section.
    address: u64,
    bytes: Vec<u8>,
    places: HashMap<usize, (Range<usize>, Functions)>,
    /// The one that was asked for last.
    last: (usize, Option<Functions>),
}

/// Bytes of one; real ones have thirty. One that makes no sense is read again for each of its functions, so the bound
/// keeps the time linear.
const MAX_SIZE: usize = 1024;

/// How many are kept, and how many bytes in all. Linkers keep each once in `.eh_frame`; `.debug_frame` has one for each
/// source file.
const MAX_COUNT: usize = 1 << 15;
const MAX_BYTES: usize = 1 << 20;

impl Cies {
    pub(crate) fn new(reader: &Reader<'_>) -> Cies {
        let section = reader.section();
        Cies {
            format: section.format,
            address: section.address,
            bytes: Vec::new(),
            places: HashMap::new(),
            last: (usize::MAX, None),
        }
    }

    /// What the CIE at `offset` says of how its functions are written down, where it was the last asked for.
    #[inline]
    pub(crate) fn last(&self, offset: usize) -> Option<Functions> {
        self.last.1.filter(|_| self.last.0 == offset)
    }

    /// The same of any, which is read where it wasn't before.
    #[cold]
    pub(crate) fn find(&mut self, offset: usize, reader: &mut Reader<'_>) -> Option<Functions> {
        let functions = match self.places.get(&offset) {
            Some((_, functions)) => *functions,
            None => self.add(offset, reader)?,
        };
        self.last = (offset, Some(functions));
        Some(functions)
    }

    fn add(&mut self, offset: usize, reader: &mut Reader<'_>) -> Option<Functions> {
        let entry = reader.short_entry(offset, MAX_SIZE)?;
        let (start, size) = (self.bytes.len(), entry.bytes.len());
        let has_room = self.places.len() < MAX_COUNT && start + size <= MAX_BYTES;
        if entry.kind != Kind::Cie || !has_room {
            return None;
        }
        let functions = Cie::parse_head(self.address, &entry)?.0.functions();
        self.bytes.extend_from_slice(entry.bytes);
        self.places.insert(offset, (start..start + size, functions));
        Some(functions)
    }

    /// The CIE at `offset`, if it was found before.
    pub(crate) fn get(&self, offset: usize, registers: &Registers) -> Option<Cie<'_>> {
        let (range, _) = self.places.get(&offset)?;
        let entry = Entry::parse(self.bytes.get(range.clone())?, offset, self.format)?;
        Cie::parse(self.address, &entry, registers)
    }
}
