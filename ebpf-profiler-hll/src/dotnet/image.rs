//! Images of assemblies, in the format of Windows, in the memory of a process.
//!
//! ```text
//!   MZ, header's offset 60 ──► PE, sections' number 6, optional header's size 20
//!                              optional header 24: data directory 14 ──► CLI header: metadata 8
//!                              sections, 40 bytes each: size 8, address 12, size in the file 16, offset in the file 20
//! ```
//!
//! An image is mapped with each section at its address, or as the file is.

use ebpf_profiler_core::language::{Memory, Reason};

/// Maximum distance of the header from the start of the image.
const MAX_HEADER: u32 = 1 << 16;

/// Maximum number of sections.
const MAX_SECTIONS: u16 = 96;

/// Index of the CLI header among the data directories.
const CLI: u32 = 14;

/// Size of a CLI header.
const CLI_SIZE: u32 = 72;

/// Maximum size of metadata.
const MAX_METADATA: u32 = 1 << 28;

/// First word of metadata.
pub(super) const METADATA: u32 = u32::from_le_bytes(*b"BSJB");

/// Returns address and size of the metadata of the image at `base`.
pub(super) fn metadata(base: u64, memory: &dyn Memory) -> Result<(u64, u32), Reason> {
    let header = memory.u32(base.wrapping_add(60))?;
    if memory.array(base)? != *b"MZ" || header > MAX_HEADER {
        return Err(Reason::Implausible);
    }
    let header = base.wrapping_add(header.into());
    let coff: [u8; 28] = memory.array(header)?;
    if coff[..4] != *b"PE\0\0" {
        return Err(Reason::Implausible);
    }
    let directories = match u16::from_le_bytes([coff[24], coff[25]]) {
        0x10b => 96,
        0x20b => 112,
        _ => return Err(Reason::Implausible),
    };
    let optional = header.wrapping_add(24);
    let count = memory.u32(optional.wrapping_add(directories - 4))?;
    if count <= CLI {
        return Err(Reason::Implausible);
    }
    let cli = memory.u32(optional.wrapping_add(directories + u64::from(CLI) * 8))?;
    if let Ok(found) = at(base, Some, cli, memory) {
        return Ok(found);
    }
    let sections = u16::from_le_bytes([coff[6], coff[7]]).min(MAX_SECTIONS);
    let size = u16::from_le_bytes([coff[20], coff[21]]);
    let sections = memory.bytes(optional.wrapping_add(size.into()), u64::from(sections) * 40, 1 << 14)?;
    at(base, |address| offset(&sections, address), cli, memory)
}

/// Returns address and size of the metadata that the CLI header at `cli` leads to; `place` returns
/// the offset from `base` of an address in the image.
fn at(
    base: u64,
    place: impl Fn(u32) -> Option<u32>,
    cli: u32,
    memory: &dyn Memory,
) -> Result<(u64, u32), Reason> {
    let of = |address| Some(base.wrapping_add(place(address)?.into()));
    let header: [u8; 16] = memory.array(of(cli).ok_or(Reason::Implausible)?)?;
    let word = |index: usize| {
        u32::from_le_bytes([header[index], header[index + 1], header[index + 2], header[index + 3]])
    };
    let (address, size) = (word(8), word(12));
    let address = of(address).ok_or(Reason::Implausible)?;
    if word(0) != CLI_SIZE || size > MAX_METADATA || memory.u32(address)? != METADATA {
        return Err(Reason::Implausible);
    }
    Ok((address, size))
}

/// Returns the offset in the file of an address, by the headers of the sections.
fn offset(sections: &[u8], address: u32) -> Option<u32> {
    sections.as_chunks::<40>().0.iter().find_map(|section| {
        let word =
            |at: usize| u32::from_le_bytes([section[at], section[at + 1], section[at + 2], section[at + 3]]);
        let within = address.checked_sub(word(12))?;
        (within < word(16)).then(|| word(20).checked_add(within))?
    })
}
