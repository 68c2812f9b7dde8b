//! Finds the table, and where the code that it describes starts.

use super::module::{Module, Relocations};
use super::{Function, Pclntab, Version};
use crate::elf::{Elf, ElfError, Section, Segment, section_type, segment_type};

/// Names of the section, in ordinary and in position-independent executables.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// In the table's header.
const TEXT_START: u64 = 24;

/// How much of a file is searched for a table without a name, and how large one with a name may be.
const MAX_SEARCH: u64 = 1 << 28;

/// What begins like a table may be made up.
const MAX_CANDIDATES: usize = 8;

/// What is read at once while searching.
const WINDOW: u64 = 1 << 18;

/// A table begins where an address does.
const STEP: u64 = 8;

impl Pclntab {
    /// The table of a file; `None` where it has none, or none that can be understood.
    ///
    /// Files whose sections tell that they come from another compiler aren't searched.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn find(elf: &Elf) -> Result<Option<Pclntab>, ElfError> {
        if let Some(section) = SECTIONS.iter().find_map(|name| elf.section(name)) {
            return named(elf, section);
        }
        if elf.sections().is_empty() || is_marked(elf) { by_content(elf) } else { Ok(None) }
    }

    /// Whether a file may have a table, told by its headers and notes alone.
    pub fn may_be_in(elf: &Elf) -> bool {
        let named = || SECTIONS.iter().any(|name| elf.section(name).is_some());
        elf.sections().is_empty() || named() || is_marked(elf)
    }

    /// Reads the trees of inlined calls, too, which lie elsewhere in the file.
    #[must_use = "it is the table with its trees"]
    pub fn with_inlined(mut self, elf: &Elf) -> Pclntab {
        self.inlined = Module::find(elf, self.address).and_then(|module| module.trees(&self));
        self
    }

    /// Fills in where the code starts, where the header doesn't tell; `None` when nothing else does.
    fn located(mut self, elf: &Elf) -> Option<Pclntab> {
        if self.version > Version::Go116 && self.text == 0 {
            self.text = self.text_start(elf)?;
        }
        Some(self)
    }

    /// Since 1.26 only the module data tells, and the entry point where it is Go's own.
    fn text_start(&self, elf: &Elf) -> Option<u64> {
        let in_header = || Relocations::of(elf).value_at(self.address + TEXT_START);
        let in_module = || Module::find(elf, self.address)?.text();
        let section = || elf.section(".text").map(|section| section.address);
        in_header().or_else(in_module).or_else(|| self.by_entry_point(elf)).or_else(section)
    }

    /// The function that Go's linker makes the entry point tells how far that is from the start.
    fn by_entry_point(&self, elf: &Elf) -> Option<u64> {
        let is_first = |function: &Function<'_>| {
            let name = function.name();
            name.starts_with(b"_rt0_") && name.ends_with(b"_linux")
        };
        let first = (0..self.count).filter_map(|number| self.function(number)).find(is_first)?;
        elf.entry().checked_sub(first.entry())
    }

    /// Whether what begins like a table is one: its parts follow each other, its functions go up and end in code.
    fn is_sound(&self, elf: &Elf) -> bool {
        if self.is_empty() {
            return false;
        }
        let parts =
            [self.version.header(), self.names, self.units, self.files, self.pc_tables, self.functions];
        let numbers = [0, self.count / 2, self.count - 1, self.count];
        let entries: Option<Vec<u64>> = numbers.iter().map(|&number| self.entry(number)).collect();
        let is_code = |address: u64| {
            let holds = |segment: &Segment| address.wrapping_sub(segment.address) < segment.memory_size;
            elf.segments().iter().any(|segment| segment.is_code() && holds(segment))
        };
        let in_order = |entries: &Vec<u64>| entries.is_sorted() && is_code(entries[0]) && is_code(entries[2]);
        parts.is_sorted() && entries.as_ref().is_some_and(in_order)
    }
}

/// Go's linker leaves a note, which stays when the section headers go.
fn is_marked(elf: &Elf) -> bool {
    const BUILD_ID: u32 = 4;
    elf.note(b"Go\0\0", BUILD_ID).is_some()
}

fn named(elf: &Elf, section: &Section) -> Result<Option<Pclntab>, ElfError> {
    if section.kind == section_type::SHT_NOBITS || section.size > MAX_SEARCH {
        return Ok(None);
    }
    let table = Pclntab::parse(elf.data(section)?, section.address);
    Ok(table.and_then(|table| table.located(elf)))
}

/// Looks through everything that is loaded for what begins like a table and is sound.
fn by_content(elf: &Elf) -> Result<Option<Pclntab>, ElfError> {
    let loaded = elf.segments().iter().filter(|segment| segment.kind == segment_type::PT_LOAD);
    let (mut left, mut candidates) = (MAX_SEARCH, MAX_CANDIDATES);
    for segment in loaded {
        let size = segment.file_size.min(left);
        left -= size;
        let mut at = segment.address.wrapping_neg() % STEP;
        while at < size {
            let window = elf.bytes(segment.offset.saturating_add(at), WINDOW.min(size - at))?;
            let begins = window.chunks_exact(STEP as usize).enumerate().filter(|(_, bytes)| begins(bytes));
            for (number, _) in begins {
                candidates = match candidates {
                    0 => return Ok(None),
                    some => some - 1,
                };
                if let Some(table) = read(elf, segment, at + STEP * number as u64) {
                    return Ok(Some(table));
                }
            }
            at += WINDOW;
        }
    }
    Ok(None)
}

/// The magic number, two zeros, and sensible sizes of instructions and pointers.
fn begins(bytes: &[u8]) -> bool {
    matches!(bytes, [0xfa | 0xf0 | 0xf1, 0xff, 0xff, 0xff, 0, 0, 1 | 2 | 4, 8])
}

/// The table that begins so far into a segment, if it is one.
///
/// How long it is, it says nowhere: it ends behind the description of its last function.
fn read(elf: &Elf, segment: &Segment, skipped: u64) -> Option<Pclntab> {
    let size = (segment.file_size - skipped).min(MAX_SEARCH);
    let data = elf.bytes(segment.offset.checked_add(skipped)?, size).ok()?;
    let mut table = Pclntab::parse(data, segment.address.wrapping_add(skipped))?.located(elf)?;
    if !table.is_sound(elf) {
        return None;
    }
    let end = table.function(table.count - 1)?.end()?;
    table.data.truncate(end);
    table.data.shrink_to_fit();
    Some(table)
}
