//! Finds the table, and where the code that it describes starts.

use ebpf_profiler_core::elf::{Elf, ElfError, Section, section_type};

use super::{Pclntab, Version};

/// Names of the section, in ordinary and in position-independent executables.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// The table of a file; `None` where it has none, or none that can be understood.
pub(crate) fn pclntab(elf: &Elf) -> Result<Option<Pclntab>, ElfError> {
    let Some(section) = SECTIONS.iter().find_map(|name| elf.section(name)) else { return Ok(None) };
    if section.kind == section_type::SHT_NOBITS {
        return Ok(None);
    }
    let Some(mut table) = Pclntab::parse(elf.data(section)?) else { return Ok(None) };
    if table.version > Version::Go116 && table.text == 0 {
        let Some(text) = text_start(elf, section) else { return Ok(None) };
        table.text = text;
    }
    Ok(Some(table))
}

/// Since 1.26 only the module data tells where the code starts; in a position-independent executable every pointer is
/// told by a relocation.
fn text_start(elf: &Elf, table: &Section) -> Option<u64> {
    /// In the table's header.
    const TEXT_START: u64 = 24;
    /// In `runtime.moduledata`.
    const TEXT: u64 = 176;
    let in_header = relocation(elf, table.address + TEXT_START);
    let module = elf.section(".go.module").map(|section| section.address + TEXT);
    let in_module = || module.and_then(|place| pointer(elf, place).or_else(|| relocation(elf, place)));
    let section = || elf.section(".text").map(|section| section.address);
    in_header.or_else(in_module).or_else(section)
}

fn pointer(elf: &Elf, place: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    elf.read(place, &mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes)).filter(|&pointer| pointer != 0)
}

/// What a relative relocation writes to `place`.
fn relocation(elf: &Elf, place: u64) -> Option<u64> {
    let data = elf.section(".rela.dyn").and_then(|section| elf.data(section).ok())?;
    // {place, symbol and type, addend}
    let number =
        |entry: &[u8], at: usize| entry.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let entry = data.chunks_exact(24).find(|entry| number(entry, 0) == Some(place))?;
    number(entry, 16).filter(|&pointer| pointer != 0)
}
