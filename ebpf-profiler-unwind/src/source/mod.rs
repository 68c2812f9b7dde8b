//! Finds the unwind data of a file: by section, or through the program headers if sections are
//! missing.

use ebpf_profiler_core::elf::{EhFrameHdr, Elf, ElfError, Segment, section_type, segment_type};

use crate::eh_frame::section::{Format, Section, Source};

mod debug_frame;

mod go;

mod search_table;

use debug_frame::DebugFrame;
pub(crate) use go::Go;
pub(crate) use search_table::{Pairs, SearchTable};

/// All unwind data of a file.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Sections of call frame information, in order of preference.
    pub(crate) frames: Vec<Section>,
    /// Number of sections that are unreadable or compressed by an unknown method.
    pub(crate) unread: u32,
    /// Go's function table.
    pub(crate) go: Option<Go>,
    /// The linker's search table, if `.eh_frame` is the only source.
    pub(crate) sorted: Option<SearchTable>,
}

impl Sources {
    /// Reads the sources.
    ///
    /// Only a failure of `.eh_frame` is an error: no other unwinder could use the file without it.
    pub(crate) fn of(elf: &Elf) -> Result<Sources, ElfError> {
        let mut frames = Vec::from_iter(eh_frame(elf)?);
        let go = Go::of(elf);
        // Go's linker derives one from the other, and does not describe frame pointers in it.
        let mut unread = 0;
        if go.is_none() {
            match debug_frame::read(elf) {
                Ok(DebugFrame::Read(section)) => frames.push(section),
                Ok(DebugFrame::Missing) => {}
                Ok(DebugFrame::Packed) | Err(_) => unread = 1,
            }
        }
        let sorted = match &frames[..] {
            [section] if go.is_none() && section.format == Format::EhFrame => SearchTable::of(elf, section),
            _ => None,
        };
        Ok(Sources { frames, go, unread, sorted })
    }
}

/// Returns the `.eh_frame` of a file, or `None` if it has none.
fn eh_frame(elf: &Elf) -> Result<Option<Section>, ElfError> {
    let section = elf.section(".eh_frame").filter(|section| section.kind != section_type::SHT_NOBITS);
    let by_section = section.map(|section| of_file(elf, section.offset, section.size, section.address));
    match by_section {
        Some(Ok(section)) => Ok(Some(section)),
        _ => match by_program_header(elf) {
            Ok(Some(section)) => Ok(Some(section)),
            // The error of the section is more specific than that of the fallback.
            other => by_section.map_or(other, |by_section| by_section.map(Some)),
        },
    }
}

/// Returns the section of `size` bytes at file offset `offset`.
fn of_file(elf: &Elf, offset: u64, size: u64, address: u64) -> Result<Section, ElfError> {
    if offset.checked_add(size).is_none_or(|end| end > elf.size()) {
        return Err(ElfError::OutOfFile { offset, size });
    }
    let size =
        usize::try_from(size).ok().filter(|&size| size <= MAX_SIZE).ok_or(ElfError::TooLarge { size })?;
    Ok(Section { source: Source::File(offset), size, address, format: Format::EhFrame })
}

/// Maximum size of a section: places in it are 30-bit numbers.
const MAX_SIZE: usize = 1 << 30;

/// Returns `.eh_frame` at the address in `.eh_frame_hdr`, up to the end of its segment in the file.
fn by_program_header(elf: &Elf) -> Result<Option<Section>, ElfError> {
    let Some(address) = EhFrameHdr::of(elf).and_then(|header| header.eh_frame()) else { return Ok(None) };
    let Some(offset) = elf.file_offset(address, 1) else { return Ok(None) };
    let end =
        elf.segments().iter().filter_map(|segment| end_in_file(segment, offset)).max().unwrap_or(offset);
    let section = of_file(elf, offset, end.min(elf.size()).saturating_sub(offset), address)?;
    Ok(Some(Section { format: Format::EhFrameUntilZero, ..section }))
}

/// Returns the end, in the file, of a loadable segment that contains byte `offset` of the file.
fn end_in_file(segment: &Segment, offset: u64) -> Option<u64> {
    let end = segment.offset.checked_add(segment.file_size)?;
    (segment.kind == segment_type::PT_LOAD && (segment.offset..end).contains(&offset)).then_some(end)
}
