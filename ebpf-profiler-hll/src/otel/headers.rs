//! Distances of thread-local variables from the thread pointer in executables.
//!
//! ```text
//!   x86_64   … | storage of the executable | thread pointer
//!   arm64    thread pointer, 16 bytes | storage of the executable | …
//! ```
//!
//! The linker fixes them: an executable has the first module, whose storage is next to the thread pointer, aligned as its segment.

use ebpf_profiler_core::elf::segment_type::PT_TLS;
use ebpf_profiler_core::elf::{Arch, Elf, Kind};

/// Returns the distance from the thread pointer of a variable at an offset in its storage; `None` if the file is not an executable, or
/// has no storage.
pub(super) fn offset_in_executable(elf: &Elf, offset: u64) -> Option<i64> {
    if !is_executable(elf) {
        return None;
    }
    let storage = elf.segments().iter().find(|segment| segment.kind == PT_TLS)?;
    let (address, size) = (storage.address, storage.memory_size);
    let mask = alignment(elf)?.max(1).checked_next_power_of_two()? - 1;
    if offset >= size || size > MAX_SIZE || mask > MAX_SIZE {
        return None;
    }
    let distance = match elf.arch() {
        Arch::X86_64 => {
            let end = address.wrapping_add(size);
            offset.wrapping_sub(size).wrapping_sub(end.wrapping_neg() & mask)
        }
        _ => offset.wrapping_add(HEAD).wrapping_add(address.wrapping_sub(HEAD) & mask),
    };
    Some(distance as i64)
}

/// Bytes between the thread pointer and the storage on arm64.
const HEAD: u64 = 16;

/// Upper bound of plausible sizes of the storage.
const MAX_SIZE: u64 = 1 << 24;

/// Returns `true` for executables, position-independent ones as well.
fn is_executable(elf: &Elf) -> bool {
    match elf.kind() {
        Kind::Executable => true,
        Kind::Shared => match dynamic(elf, DT_FLAGS_1) {
            Some(flags) if flags & DF_1_PIE != 0 => true,
            // Linkers before 2016 have not marked them. The C library has an interpreter as well, but not the variable.
            _ => elf.segments().iter().any(|segment| segment.kind == PT_INTERP),
        },
        _ => false,
    }
}

/// Returns the value of an entry of the dynamic section.
pub(super) fn dynamic(elf: &Elf, wanted: u64) -> Option<u64> {
    let section = elf.segments().iter().find(|segment| segment.kind == PT_DYNAMIC)?;
    let bytes = elf.bytes(section.offset, section.file_size.min(MAX_DYNAMIC)).ok()?;
    let entries = bytes.as_chunks::<16>().0.iter().map(|entry| {
        let word = |at: usize| entry[at..].first_chunk().copied().map_or(0, u64::from_le_bytes);
        (word(0), word(8))
    });
    entries.take_while(|&(tag, _)| tag != 0).find(|&(tag, _)| tag == wanted).map(|(_, value)| value)
}

/// Returns the alignment of the thread-local storage, which the program headers have.
fn alignment(elf: &Elf) -> Option<u64> {
    let mut header = [0; 64];
    elf.fill(0, &mut header).ok()?;
    let at = u64::from_le_bytes(*header[32..].first_chunk()?);
    let count = u16::from_le_bytes(*header[56..].first_chunk()?);
    (0..u64::from(count)).find_map(|index| {
        let mut header = [0; 56];
        elf.fill(at.checked_add(index * 56)?, &mut header).ok()?;
        let is_storage = u32::from_le_bytes(*header.first_chunk()?) == PT_TLS;
        is_storage.then(|| header[48..].first_chunk().copied().map_or(1, u64::from_le_bytes))
    })
}

/// Maximum number of bytes of the dynamic section that are read.
const MAX_DYNAMIC: u64 = 16 << 10;

const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_PIE: u64 = 0x0800_0000;
