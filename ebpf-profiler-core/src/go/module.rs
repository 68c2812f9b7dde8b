//! The runtime's module data, which points to code and trees of inlined calls.
//!
//! It begins with the address of the table, and has its own section since 1.26. In a
//! position-independent executable its pointers are relocations.

use super::inlined::Trees;
use super::{Pclntab, Version};
use crate::elf::{Elf, Section, Segment, segment_type};

/// Offsets in the module data.
const FIRST_CODE: u64 = 160;
const TEXT: u64 = 176;

/// Offsets of the address of the trees: 1.20 to 1.26, 1.27 and later, 1.18 and 1.19.
const TREES: [u64; 3] = [320, 344, 304];

/// Maximum number of bytes read of the trees; a large program has a few MiB.
const MAX_TREES: u64 = 64 << 20;

/// The module data of a file.
pub(super) struct Module<'e> {
    elf: &'e Elf,
    address: u64,
    relocations: Relocations,
}

impl<'e> Module<'e> {
    /// Finds the module data that points to the table at `table`.
    pub(super) fn find(elf: &'e Elf, table: u64) -> Option<Module<'e>> {
        let relocations = Relocations::of(elf);
        let section = elf.section(".go.module").map(|section| section.address);
        let address = section.or_else(|| relocations.place_of(table)).or_else(|| by_content(elf, table))?;
        Some(Module { elf, address, relocations })
    }

    /// Returns the address at which the code starts.
    pub(super) fn text(&self) -> Option<u64> {
        self.pointer(TEXT)
    }

    /// Reads the trees of inlined calls of the functions of `table`.
    pub(super) fn trees(&self, table: &Pclntab) -> Option<Trees> {
        if table.version == Version::Go116 {
            return None;
        }
        TREES.iter().filter_map(|&place| self.read(self.pointer(place)?)).find(|trees| table.fit(trees))
    }

    fn read(&self, address: u64) -> Option<Trees> {
        let holds = |segment: &&Segment| {
            let offset = address.checked_sub(segment.address);
            segment.kind == segment_type::PT_LOAD && offset.is_some_and(|offset| offset < segment.file_size)
        };
        let segment = self.elf.segments().iter().find(holds)?;
        let skipped = address - segment.address;
        let size = (segment.file_size - skipped).min(MAX_TREES);
        let data = self.elf.bytes(segment.offset.checked_add(skipped)?, size).ok()?;
        Some(Trees { data })
    }

    fn pointer(&self, place: u64) -> Option<u64> {
        let place = self.address.checked_add(place)?;
        pointer(self.elf, place).or_else(|| self.relocations.value_at(place))
    }
}

/// Reads the pointer at virtual address `place`; `None` if it is null.
fn pointer(elf: &Elf, place: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    elf.read(place, &mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes)).filter(|&pointer| pointer != 0)
}

/// Searches data segments for the address of the table, followed by an address of code at the right
/// offset.
fn by_content(elf: &Elf, table: u64) -> Option<u64> {
    /// Maximum number of bytes searched per segment.
    const MAX: u64 = 64 << 20;
    let is_data = |segment: &&Segment| segment.kind == segment_type::PT_LOAD && !segment.is_code();
    let is_code = |address: u64| {
        let holds = |segment: &Segment| address.wrapping_sub(segment.address) < segment.memory_size;
        elf.segments().iter().any(|segment| segment.is_code() && holds(segment))
    };
    elf.segments().iter().filter(is_data).find_map(|segment| {
        let data = elf.bytes(segment.offset, segment.file_size.min(MAX)).ok()?;
        let skipped = (segment.address.wrapping_neg() & 7) as usize;
        let words = data.get(skipped..)?.as_chunks().0;
        let value = |word: usize| words.get(word).map(|bytes| u64::from_le_bytes(*bytes));
        let is_module = |&word: &usize| {
            value(word) == Some(table) && value(word + FIRST_CODE as usize / 8).is_some_and(is_code)
        };
        let word = (0..words.len()).find(is_module)?;
        segment.address.checked_add((skipped + 8 * word) as u64)
    })
}

/// Relocations by the load bias: {place, symbol and type, value}.
pub(super) struct Relocations(Vec<u8>);

impl Relocations {
    pub(super) fn of(elf: &Elf) -> Relocations {
        let section: Option<&Section> = elf.section(".rela.dyn").or_else(|| elf.section(".rela"));
        Relocations(section.and_then(|section| elf.data(section).ok()).unwrap_or_default())
    }

    /// Returns the value written to `place`.
    pub(super) fn value_at(&self, place: u64) -> Option<u64> {
        self.all().find(|&(at, _)| at == place).map(|(_, value)| value).filter(|&value| value != 0)
    }

    /// Returns the lowest address that `value` is written to.
    fn place_of(&self, value: u64) -> Option<u64> {
        self.all().filter(|&(_, written)| written == value).map(|(place, _)| place).min()
    }

    fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.as_chunks().0.iter().map(|entry: &[u8; 24]| {
            let (words, _) = entry.as_chunks();
            (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[2]))
        })
    }
}
