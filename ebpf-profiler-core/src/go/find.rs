//! Search for the table, and for the address at which its code starts.

use super::module::{Module, Relocations};
use super::{Function, Pclntab, Version};
use crate::elf::{Elf, ElfError, Section, Segment, section_type, segment_type};

/// Names of the section, in ordinary and in position-independent executables.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// Offset of the text start in the table's header.
const TEXT_START: u64 = 24;

/// Maximum number of bytes searched in a file without a named section, and maximum size of a named
/// one.
const MAX_SEARCH: u64 = 1 << 28;

/// Maximum number of candidates for a table that are checked.
const MAX_CANDIDATES: usize = 8;

/// Bytes per read of a search.
const WINDOW: u64 = 1 << 18;

/// Alignment of a table.
const STEP: u64 = 8;

impl Pclntab {
    /// Finds the table of a file; `None` if it has none, or one of an unknown format.
    ///
    /// A file without section headers is searched by content, others only if they have Go's build
    /// id note.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn find(elf: &Elf) -> Result<Option<Pclntab>, ElfError> {
        if let Some(section) = SECTIONS.iter().find_map(|name| elf.section(name)) {
            return named(elf, section);
        }
        if elf.sections().is_empty() || is_marked(elf) { by_content(elf) } else { Ok(None) }
    }

    /// Returns `true` if a file may have a table, by its headers and notes alone.
    pub fn may_be_in(elf: &Elf) -> bool {
        let named = || SECTIONS.iter().any(|name| elf.section(name).is_some());
        elf.sections().is_empty() || named() || is_marked(elf)
    }

    /// Also reads the trees of inlined calls, which are elsewhere in the file.
    #[must_use = "returns the table with its trees"]
    pub fn with_inlined(mut self, elf: &Elf) -> Pclntab {
        self.inlined = Module::find(elf, self.address).and_then(|module| module.trees(&self));
        self
    }

    /// Fills in the start of the code if the header lacks it; `None` if it cannot be found.
    fn located(mut self, elf: &Elf) -> Option<Pclntab> {
        if self.version > Version::Go116 && self.text == 0 {
            self.text = self.text_start(elf)?;
        }
        Some(self)
    }

    /// Finds the start of the code. Since Go 1.26 only the module data has it, or Go's own entry
    /// point implies it.
    fn text_start(&self, elf: &Elf) -> Option<u64> {
        let in_header = || Relocations::of(elf).value_at(self.address + TEXT_START);
        let in_module = || Module::find(elf, self.address)?.text();
        let section = || elf.section(".text").map(|section| section.address);
        in_header().or_else(in_module).or_else(|| self.by_entry_point(elf)).or_else(section)
    }

    /// Derives the start of the code from the entry point and the offset of its function,
    /// `_rt0_*_linux`.
    fn by_entry_point(&self, elf: &Elf) -> Option<u64> {
        let is_first = |function: &Function<'_>| {
            let name = function.name();
            name.starts_with(b"_rt0_") && name.ends_with(b"_linux")
        };
        let first = (0..self.count).filter_map(|number| self.function(number)).find(is_first)?;
        elf.entry().checked_sub(first.entry())
    }

    /// Returns `true` if a candidate is a table: its parts are in order, its functions ascend and
    /// lie in code.
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

/// Returns `true` if the file has the build id note of Go's linker, which survives the removal of
/// section headers.
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

/// Searches all loaded bytes for a valid table.
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

/// Returns `true` for the first eight bytes of a table: magic number, two zeros, instruction size,
/// pointer size.
fn begins(bytes: &[u8]) -> bool {
    matches!(bytes, [0xfa | 0xf0 | 0xf1, 0xff, 0xff, 0xff, 0, 0, 1 | 2 | 4, 8])
}

/// Reads the table that begins `skipped` bytes into a segment, if it is valid.
///
/// A table has no size field: it ends after the description of its last function.
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
