//! `.debug_frame`: call frame information that only debuggers asked for, often compressed.

use std::io::Read;

use ebpf_profiler_core::elf::{COMPRESSED, Elf, ElfError, section_type};
use flate2::read::ZlibDecoder;

use super::of_file;
use crate::bytes::Bytes;
use crate::eh_frame::section::{Format, Section, Source};

/// What a file has of it.
pub(super) enum DebugFrame {
    Missing,
    /// Unpacked.
    Read(Section),
    /// Packed in another way than with zlib, which is zstd: nobody but a few distributions' debug files have that, and
    /// those are no files that run, so a decoder for it isn't worth having.
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

/// The header of a compressed section: `{type, 0, size, alignment}`.
fn compressed(bytes: &mut Bytes<'_>) -> Option<u64> {
    const ZLIB: u32 = 1;
    let kind = bytes.u32()?;
    bytes.u32()?;
    let size = bytes.u64()?;
    bytes.u64()?;
    (kind == ZLIB).then_some(size)
}

/// The header before there was one: `ZLIB`, and the size with its high byte first.
fn old_compressed(bytes: &mut Bytes<'_>) -> Option<u64> {
    let is_zlib = bytes.take(4)? == b"ZLIB";
    bytes.u64().filter(|_| is_zlib).map(u64::swap_bytes)
}

/// The most that is unpacked: real ones are a hundredth of it.
const MAX_SIZE: u64 = 1 << 28;

fn unpack(data: &[u8], header: fn(&mut Bytes<'_>) -> Option<u64>) -> Option<Vec<u8>> {
    let mut bytes = Bytes(data);
    let size = header(&mut bytes).filter(|&size| size <= MAX_SIZE)?;
    let mut unpacked = Vec::new();
    ZlibDecoder::new(bytes.0).take(size).read_to_end(&mut unpacked).ok()?;
    Some(unpacked)
}
