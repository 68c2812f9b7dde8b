//! The CIEs of a section. Their bytes stay in memory, those of FDEs do not.

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
    /// Virtual address of the section.
    address: u64,
    bytes: Vec<u8>,
    places: HashMap<usize, (Range<usize>, Functions)>,
    /// The CIE used last.
    last: (usize, Option<Functions>),
}

/// Maximum size of a CIE, in bytes; real ones have thirty. A malformed one is read again for each
/// of its functions, so the limit keeps the time linear.
const MAX_SIZE: usize = 1024;

/// Maximum number of CIEs, and of their bytes. Linkers merge equal ones in `.eh_frame`;
/// `.debug_frame` has one per source file.
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

    /// Returns the encoding of the FDEs of the CIE at `offset`, if it was the one used last.
    #[inline]
    pub(crate) fn last(&self, offset: usize) -> Option<Functions> {
        self.last.1.filter(|_| self.last.0 == offset)
    }

    /// Returns the encoding of the FDEs of any CIE, reading it if necessary.
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

    /// Returns the CIE at `offset` if it was read before.
    pub(crate) fn get(&self, offset: usize, registers: &Registers) -> Option<Cie<'_>> {
        let (range, _) = self.places.get(&offset)?;
        let entry = Entry::parse(self.bytes.get(range.clone())?, offset, self.format)?;
        Cie::parse(self.address, &entry, registers)
    }
}
