//! The procedure linkage table of x86_64: the function behind each entry.
//!
//! ```text
//!   .plt.sec  endbr64; jmp *slot(%rip) ──► slot ──► .rela.plt: slot, number ──► .dynsym: name
//! ```
//!
//! Decoding the jumps makes this independent of the order of entries.

use hashbrown::HashMap;
use object::LittleEndian as LE;
use object::elf::{Rela64, Sym64};

use super::data::{Data, each};
use crate::elf::{Arch, Elf, ElfError, Section, section_type};

/// One entry.
pub(super) struct Entry {
    pub(super) address: u64,
    pub(super) size: u64,
    /// Offset of the name in the string section of `.dynsym`.
    pub(super) name: u32,
}

/// Maximum number of entries.
const MAX_ENTRIES: usize = 1 << 16;

/// Returns the entries of named functions.
pub(super) fn entries(elf: &Elf) -> Result<Vec<Entry>, ElfError> {
    let mut jumps = Vec::new();
    if elf.arch() == Arch::X86_64 {
        for name in [".plt", ".plt.sec", ".plt.got"] {
            elf.section(name).map_or(Ok(()), |section| read_jumps(elf, section, &mut jumps))?;
        }
    }
    if jumps.is_empty() {
        return Ok(Vec::new());
    }
    let names = slot_names(elf, &jumps)?;
    let name = |jump: &Jump| names.get(&jump.slot).copied();
    Ok(jumps.into_iter().filter_map(|jump| name(&jump).and_then(|name| jump.named(name))).collect())
}

/// An entry before its name is known.
struct Jump {
    address: u64,
    size: u64,
    /// The slot that holds the function's address.
    slot: u64,
}

impl Jump {
    fn named(self, name: u32) -> Option<Entry> {
        (name != 0).then_some(Entry { address: self.address, size: self.size, name })
    }
}

/// Finds `jmp *displacement(%rip)`, the bytes `ff 25` and four more, in every entry.
fn read_jumps(elf: &Elf, section: &Section, jumps: &mut Vec<Jump>) -> Result<(), ElfError> {
    let size = if section.entry_size == 8 { 8 } else { 16 };
    let data = Data::of(elf, section);
    let bytes = data.range(0, data.size().min((MAX_ENTRIES * size) as u64))?;
    for (number, entry) in bytes.chunks_exact(size).enumerate() {
        let Some(at) = entry.windows(2).position(|pair| pair == [0xff, 0x25]) else { continue };
        let Some(displacement) = entry.get(at + 2..at + 6).and_then(|bytes| bytes.try_into().ok()) else {
            continue;
        };
        let address = section.address.wrapping_add((number * size) as u64);
        let next = address.wrapping_add(at as u64 + 6);
        let slot = next.wrapping_add_signed(i32::from_le_bytes(displacement).into());
        jumps.push(Jump { address, size: size as u64, slot });
    }
    Ok(())
}

/// Returns the name offset of each slot.
fn slot_names(elf: &Elf, jumps: &[Jump]) -> Result<HashMap<u64, u32>, ElfError> {
    let mut slots: HashMap<u64, u32> = jumps.iter().map(|jump| (jump.slot, 0)).collect();
    for name in [".rela.plt", ".rela.dyn"] {
        let Some(section) = elf.section(name) else { continue };
        each::<Rela64<LE>>(elf, section, |relocation| {
            if let Some(symbol) = slots.get_mut(&relocation.r_offset.get(LE)) {
                *symbol = relocation.r_sym(LE, false);
            }
        })?;
    }
    let mut names: HashMap<u32, u32> = slots.values().map(|&symbol| (symbol, 0)).collect();
    let mut number = 0;
    if let Some(dynamic) = elf.sections().iter().find(|section| section.kind == section_type::SHT_DYNSYM) {
        each::<Sym64<LE>>(elf, dynamic, |symbol| {
            if let Some(name) = names.get_mut(&number) {
                *name = symbol.st_name.get(LE);
            }
            number += 1;
        })?;
    }
    Ok(slots.into_iter().map(|(slot, symbol)| (slot, names.get(&symbol).copied().unwrap_or(0))).collect())
}
