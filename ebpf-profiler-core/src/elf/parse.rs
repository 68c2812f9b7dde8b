//! Parsing of ELF headers; every size is checked against the length of the file.

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, NoteHeader64, ProgramHeader64, SectionHeader64};
use object::pod::{self, Pod};

use super::{Arch, Elf, ElfError, Kind, ReadAt, Section, Segment, section_type, segment_type};

/// Maximum size of one read, in bytes.
const MAX_READ: u64 = 1 << 30;

/// Maximum size of all section names, in bytes.
const MAX_NAMES: u64 = 1 << 20;

/// Maximum length of a section name, in bytes; longer ones are cut.
const MAX_NAME: usize = 256;

/// Maximum number of sections, more than any loaded file has.
const MAX_SECTIONS: u64 = 1 << 17;

/// Maximum number of segments, more than a core dump of the largest process has.
const MAX_SEGMENTS: u64 = 1 << 18;

/// Maximum size searched of one note section or segment, in bytes.
const MAX_NOTES: u64 = 1 << 20;

/// Maximum number of note sections and segments searched.
const MAX_NOTE_PARTS: usize = 64;

pub(super) fn open(source: Box<dyn ReadAt>) -> Result<Elf, ElfError> {
    let size = source.size().map_err(|error| ElfError::Read(error.kind()))?;
    let header_size = size_of::<FileHeader64<LE>>() as u64;
    if size < header_size {
        return Err(ElfError::NotElf);
    }
    let head = bytes(&*source, size, 0, header_size)?;
    let header = table::<FileHeader64<LE>>(&head).first().ok_or(ElfError::NotElf)?;
    check_ident(header)?;
    let segments = segments(&*source, size, header)?;
    let sections = match sections(&*source, size, header) {
        // A loaded program does not need its sections.
        Err(ElfError::OutOfFile { .. } | ElfError::TooLarge { .. }) if is_loaded(&segments) => Vec::new(),
        sections => sections?,
    };
    Ok(Elf {
        arch: arch(header.e_machine.get(LE))?,
        kind: kind(header.e_type.get(LE)),
        entry: header.e_entry.get(LE),
        source,
        size,
        segments,
        sections,
    })
}

fn is_loaded(segments: &[Segment]) -> bool {
    segments.iter().any(|segment| segment.kind == segment_type::PT_LOAD)
}

pub(super) fn bytes(source: &dyn ReadAt, file: u64, offset: u64, size: u64) -> Result<Vec<u8>, ElfError> {
    // Checked before memory is allocated.
    if offset.checked_add(size).is_none_or(|end| end > file) {
        return Err(ElfError::OutOfFile { offset, size });
    }
    if size > MAX_READ {
        return Err(ElfError::TooLarge { size });
    }
    let mut buffer = vec![0; size as usize];
    fill(source, file, offset, &mut buffer)?;
    Ok(buffer)
}

pub(super) fn fill(source: &dyn ReadAt, file: u64, offset: u64, buffer: &mut [u8]) -> Result<(), ElfError> {
    let size = buffer.len() as u64;
    if offset.checked_add(size).is_none_or(|end| end > file) {
        return Err(ElfError::OutOfFile { offset, size });
    }
    source.read_at(offset, buffer).map_err(|error| ElfError::Read(error.kind()))
}

pub(super) fn note(elf: &Elf, owner: &[u8], kind: u32) -> Option<Vec<u8>> {
    let in_segments = elf
        .segments
        .iter()
        .filter(|segment| segment.kind == segment_type::PT_NOTE)
        .map(|segment| (segment.offset, segment.file_size));
    let in_sections = elf
        .sections
        .iter()
        .filter(|section| section.kind == section_type::SHT_NOTE)
        .map(|section| (section.offset, section.size));
    in_segments.chain(in_sections).take(MAX_NOTE_PARTS).find_map(|(offset, size)| {
        let data = elf.bytes(offset, size.min(MAX_NOTES)).ok()?;
        find_note(&data, owner, kind)
    })
}

/// Notes are `{name size, description size, type, name, description}`, both padded to four bytes.
fn find_note(mut data: &[u8], owner: &[u8], kind: u32) -> Option<Vec<u8>> {
    const HEADER: usize = size_of::<NoteHeader64<LE>>();
    loop {
        let header = table::<NoteHeader64<LE>>(data.get(..HEADER)?).first()?;
        let name_size = header.n_namesz.get(LE) as usize;
        let size = header.n_descsz.get(LE) as usize;
        let rest = &data[HEADER..];
        let name = rest.get(..name_size)?;
        let rest = rest.get(name_size.next_multiple_of(4)..)?;
        let description = rest.get(..size)?;
        if name == owner && header.n_type.get(LE) == kind {
            return Some(description.to_vec());
        }
        data = rest.get(size.next_multiple_of(4)..)?;
    }
}

fn check_ident(header: &FileHeader64<LE>) -> Result<(), ElfError> {
    let ident = &header.e_ident;
    if ident.magic != elf::ELFMAG {
        Err(ElfError::NotElf)
    } else if ident.class != elf::ELFCLASS64 {
        Err(ElfError::Unsupported("not 64-bit".into()))
    } else if ident.data != elf::ELFDATA2LSB {
        Err(ElfError::Unsupported("not little-endian".into()))
    } else {
        Ok(())
    }
}

fn arch(machine: u16) -> Result<Arch, ElfError> {
    match machine {
        elf::EM_X86_64 => Ok(Arch::X86_64),
        elf::EM_AARCH64 => Ok(Arch::Aarch64),
        other => Err(ElfError::Unsupported(format!("machine {other}").into())),
    }
}

fn kind(kind: u16) -> Kind {
    match kind {
        elf::ET_EXEC => Kind::Executable,
        elf::ET_DYN => Kind::Shared,
        elf::ET_CORE => Kind::Core,
        _ => Kind::Other,
    }
}

fn segments(source: &dyn ReadAt, size: u64, header: &FileHeader64<LE>) -> Result<Vec<Segment>, ElfError> {
    let count = match header.e_phnum.get(LE) {
        // Core dumps with many mappings hold the count in the first section header.
        elf::PN_XNUM => first_section(source, size, header)?.sh_info.get(LE).into(),
        count => u64::from(count),
    };
    check_count(count, MAX_SEGMENTS)?;
    let data = headers::<ProgramHeader64<LE>>(source, size, header.e_phoff.get(LE), count)?;
    let segment = |header: &ProgramHeader64<LE>| Segment {
        kind: header.p_type.get(LE),
        flags: header.p_flags.get(LE),
        offset: header.p_offset.get(LE),
        address: header.p_vaddr.get(LE),
        file_size: header.p_filesz.get(LE),
        memory_size: header.p_memsz.get(LE),
    };
    Ok(table(&data).iter().map(segment).collect())
}

fn sections(source: &dyn ReadAt, size: u64, header: &FileHeader64<LE>) -> Result<Vec<Section>, ElfError> {
    let offset = header.e_shoff.get(LE);
    if offset == 0 {
        return Ok(Vec::new());
    }
    let count = match header.e_shnum.get(LE) {
        0 => first_section(source, size, header)?.sh_size.get(LE),
        count => count.into(),
    };
    check_count(count, MAX_SECTIONS)?;
    let data = headers::<SectionHeader64<LE>>(source, size, offset, count)?;
    let headers = table::<SectionHeader64<LE>>(&data);
    let names = match header.e_shstrndx.get(LE) {
        elf::SHN_XINDEX => headers.first().map_or(0, |first| first.sh_link.get(LE)),
        index => index.into(),
    };
    let names = match headers.get(names as usize) {
        Some(names) => bytes(source, size, names.sh_offset.get(LE), names.sh_size.get(LE).min(MAX_NAMES))?,
        None => Vec::new(),
    };
    let section = |header: &SectionHeader64<LE>| Section {
        name: name(&names, header.sh_name.get(LE) as usize),
        kind: header.sh_type.get(LE),
        flags: header.sh_flags.get(LE),
        address: header.sh_addr.get(LE),
        offset: header.sh_offset.get(LE),
        size: header.sh_size.get(LE),
        link: header.sh_link.get(LE),
        entry_size: header.sh_entsize.get(LE),
    };
    Ok(headers.iter().map(section).collect())
}

fn first_section(
    source: &dyn ReadAt,
    size: u64,
    header: &FileHeader64<LE>,
) -> Result<SectionHeader64<LE>, ElfError> {
    let offset = header.e_shoff.get(LE);
    let data = headers::<SectionHeader64<LE>>(source, size, offset, 1)?;
    table(&data).first().copied().ok_or(ElfError::OutOfFile { offset, size: 64 })
}

fn check_count(count: u64, most: u64) -> Result<(), ElfError> {
    if count > most { Err(ElfError::TooLarge { size: count }) } else { Ok(()) }
}

/// Reads the bytes of `count` headers.
fn headers<T>(source: &dyn ReadAt, size: u64, offset: u64, count: u64) -> Result<Vec<u8>, ElfError> {
    bytes(source, size, offset, count.saturating_mul(size_of::<T>() as u64))
}

/// Views `data` as a slice of `T`; empty if it is misaligned.
fn table<T: Pod>(data: &[u8]) -> &[T] {
    pod::slice_from_all_bytes(data).unwrap_or_default()
}

fn name(names: &[u8], offset: usize) -> Box<str> {
    let bytes = names.get(offset..).unwrap_or_default();
    let bytes = &bytes[..bytes.len().min(MAX_NAME)];
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into()
}
