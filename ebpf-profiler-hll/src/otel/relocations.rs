//! Relocations by which a file finds a thread-local variable.
//!
//! | relocation | x86_64 | arm64 | what the loader stores at its place |
//! | --- | --- | --- | --- |
//! | module | 16 | 1028 | the number of the module; the offset in its storage follows |
//! | distance | 18 | 1030 | the distance from the thread pointer |
//! | descriptor | 36 | 1031 | a function, and its argument: the distance, or the address of module and offset |
//!
//! One without a symbol is of the file's own storage, at the offset that it adds.

use ebpf_profiler_core::elf::{Arch, Elf};

use super::headers::dynamic;
use crate::accessor::Origin;

/// Returns where a thread has the variable `name`, by the relocations of a file. `own` is its offset in the storage of the file, if the
/// file has it.
pub(super) fn origin(elf: &Elf, name: &str, own: Option<u64>) -> Option<Origin> {
    let mut of_module = None;
    let found = tables(elf).into_iter().flatten().find_map(|(at, size)| {
        find(elf, (at, size), &mut |relocation| {
            let kind = Kind::of(relocation.kind, elf.arch())?;
            if relocation.symbol != 0 {
                return is_named(elf, relocation.symbol, name)
                    .then(|| kind.origin(relocation.place, relocation.addend.wrapping_neg()));
            }
            let offset = own? as i64;
            match kind {
                // Its second word is the offset of another variable, or 0.
                Kind::Module => {
                    of_module = of_module.or(module(elf, relocation.place, offset));
                    None
                }
                _ => Some(kind.origin(relocation.place, offset.wrapping_sub(relocation.addend))),
            }
        })
    });
    found.or(of_module)
}

/// A kind of relocation.
#[derive(Clone, Copy)]
enum Kind {
    Module,
    Distance,
    Descriptor,
}

impl Kind {
    fn of(number: u32, arch: Arch) -> Option<Kind> {
        match (arch, number) {
            (Arch::X86_64, 16) | (Arch::Aarch64, 1028) => Some(Kind::Module),
            (Arch::X86_64, 18) | (Arch::Aarch64, 1030) => Some(Kind::Distance),
            (Arch::X86_64, 36) | (Arch::Aarch64, 1031) => Some(Kind::Descriptor),
            _ => None,
        }
    }

    fn origin(self, place: u64, plus: i64) -> Origin {
        match self {
            Kind::Module => Origin::Module { pair: place, plus },
            Kind::Distance => Origin::Slot { slot: place, plus },
            Kind::Descriptor => Origin::Descriptor { pair: place, plus },
        }
    }
}

/// Returns the origin of the variable at `offset` by a pair of the file's own module.
fn module(elf: &Elf, place: u64, offset: i64) -> Option<Origin> {
    let mut other = [0; 8];
    elf.read(place.checked_add(8)?, &mut other).ok()?;
    let plus = offset.wrapping_sub(i64::from_le_bytes(other));
    Some(Origin::Module { pair: place, plus })
}

struct Relocation {
    place: u64,
    symbol: u32,
    kind: u32,
    addend: i64,
}

/// Returns addresses and sizes of the tables of relocations: of data, and of the linkage table.
fn tables(elf: &Elf) -> [Option<(u64, u64)>; 2] {
    let table = |at, size| Some((dynamic(elf, at)?, dynamic(elf, size)?));
    [table(DT_RELA, DT_RELASZ), table(DT_JMPREL, DT_PLTRELSZ)]
}

/// Calls `each` with the relocations of a table until it returns `Some`.
fn find<T>(elf: &Elf, (at, size): (u64, u64), each: &mut dyn FnMut(&Relocation) -> Option<T>) -> Option<T> {
    let end = at.checked_add(size.min(MAX_BYTES))?;
    let mut next = at;
    while next < end {
        let mut bytes = vec![0; CHUNK.min(end - next) as usize];
        elf.read(next, &mut bytes).ok()?;
        let found = bytes.as_chunks::<SIZE>().0.iter().find_map(|bytes| {
            let word = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u64::from_le_bytes);
            let (place, info, addend) = (word(0), word(8), word(16) as i64);
            each(&Relocation { place, symbol: (info >> 32) as u32, kind: info as u32, addend })
        });
        if found.is_some() {
            return found;
        }
        next += CHUNK;
    }
    None
}

/// Returns `true` if a dynamic symbol has the name.
fn is_named(elf: &Elf, index: u32, name: &str) -> bool {
    let is = || {
        let at = dynamic(elf, DT_SYMTAB)?.checked_add(u64::from(index) * 24)?;
        let mut offset = [0; 4];
        elf.read(at, &mut offset).ok()?;
        let mut bytes = vec![0; name.len() + 1];
        elf.read(dynamic(elf, DT_STRTAB)?.checked_add(u32::from_le_bytes(offset).into())?, &mut bytes)
            .ok()?;
        Some(bytes.strip_suffix(&[0])? == name.as_bytes())
    };
    is().unwrap_or(false)
}

/// Bytes of a relocation.
const SIZE: usize = 24;

/// Bytes of relocations that are read at once; a multiple of [`SIZE`].
const CHUNK: u64 = 24 << 10;

/// Maximum number of bytes of a table that are read.
const MAX_BYTES: u64 = 24 << 20;

const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;
const DT_PLTRELSZ: u64 = 2;
