//! `.debug_frame`: call frame information for debuggers, often compressed.

use std::io::Read;

use ebpf_profiler_core::elf::{COMPRESSED, Elf, ElfError, section_type};
use flate2::read::ZlibDecoder;

use super::of_file;
use crate::bytes::Bytes;
use crate::eh_frame::section::{Format, Section, Source};

/// The section of a file.
pub(super) enum DebugFrame {
    Missing,
    /// Present, decompressed.
    Read(Section),
    /// Compressed by another method than zlib, which is zstd. Only debug files of a few
    /// distributions use it, and those do not run, so a decoder is not worth its dependency.
    Packed,
}

/// Reads the section of a file.
pub(super) fn read(elf: &Elf) -> Result<DebugFrame, ElfError> {
    let Some(section) = elf.section(".debug_frame").or_else(|| elf.section(".zdebug_frame")) else {
        return Ok(DebugFrame::Missing);
    };
    if section.kind == section_type::SHT_NOBITS {
        return Ok(DebugFrame::Missing);
    }
    let header: fn(&mut Bytes<'_>) -> Option<u64> = if section.flags & COMPRESSED != 0 {
        compressed
    } else if &*section.name == ".zdebug_frame" {
        old_compressed
    } else {
        let plain = of_file(elf, section.offset, section.size, 0)?;
        return Ok(DebugFrame::Read(Section { format: Format::DebugFrame, ..plain }));
    };
    let data = unpack(&elf.data(section)?, header);
    let section = |data: Vec<u8>| {
        let size = data.len();
        DebugFrame::Read(Section {
            source: Source::Memory(data),
            size,
            address: 0,
            format: Format::DebugFrame,
        })
    };
    Ok(data.map_or(DebugFrame::Packed, section))
}

/// Decodes the header of a compressed section: `{type, 0, size, alignment}`.
fn compressed(bytes: &mut Bytes<'_>) -> Option<u64> {
    const ZLIB: u32 = 1;
    let kind = bytes.u32()?;
    bytes.u32()?;
    let size = bytes.u64()?;
    bytes.u64()?;
    (kind == ZLIB).then_some(size)
}

/// Decodes the older header: `ZLIB` and the size, high byte first.
fn old_compressed(bytes: &mut Bytes<'_>) -> Option<u64> {
    let is_zlib = bytes.take(4)? == b"ZLIB";
    bytes.u64().filter(|_| is_zlib).map(u64::swap_bytes)
}

/// Maximum decompressed size: a hundred times that of real sections.
const MAX_SIZE: u64 = 1 << 28;

fn unpack(data: &[u8], header: fn(&mut Bytes<'_>) -> Option<u64>) -> Option<Vec<u8>> {
    let mut bytes = Bytes(data);
    let size = header(&mut bytes).filter(|&size| size <= MAX_SIZE)?;
    let mut unpacked = Vec::new();
    ZlibDecoder::new(bytes.0).take(size).read_to_end(&mut unpacked).ok()?;
    Some(unpacked)
}
