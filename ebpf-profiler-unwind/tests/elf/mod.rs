//! Small ELF files around unwind data that somebody makes up.
#![allow(dead_code, clippy::allow_attributes, reason = "each user needs a part of it")]

use std::io::Cursor;

use ebpf_profiler_core::elf::Elf;

pub(crate) const X86_64: u16 = 62;
pub(crate) const AARCH64: u16 = 183;

/// Start and size of the code.
pub(crate) const CODE: u64 = DATA - CODE_SIZE;
pub(crate) const CODE_SIZE: u64 = 0x1000_0000;

/// Address of the unwind data: after the code, so that real sections point into it.
pub(crate) const DATA: u64 = 0x4000_0000;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;

/// A file that finds its unwind data by a section of this name.
pub(crate) fn with_section(machine: u16, name: &str, data: &[u8]) -> Vec<u8> {
    with_flags(machine, name, 2, data)
}

/// The same with other flags of the section.
pub(crate) fn with_flags(machine: u16, name: &str, flags: u64, data: &[u8]) -> Vec<u8> {
    let begin = HEADER + 2 * PROGRAM_HEADER;
    let names = format!("\0{name}\0.shstrtab\0");
    let names_at = begin + data.len();
    let mut file = header(machine, 2, Some(names_at + names.len()));
    file.extend(segment(1, 5, 0, CODE, 0, CODE_SIZE));
    file.extend(segment(1, 4, begin, DATA, data.len(), data.len() as u64));
    file.extend_from_slice(data);
    file.extend_from_slice(names.as_bytes());
    file.extend([0; SECTION_HEADER]);
    file.extend(section(1, 1, flags, DATA, begin, data.len()));
    file.extend(section(2 + name.len() as u32, 3, 2, 0, names_at, names.len()));
    file
}

/// A file without sections: the program header leads to `.eh_frame_hdr`, and that to `.eh_frame`.
pub(crate) fn with_program_header(machine: u16, data: &[u8]) -> Vec<u8> {
    let begin = HEADER + 3 * PROGRAM_HEADER;
    let lead = [1, 0x1b, 0xff, 0xff, 4, 0, 0, 0];
    let size = lead.len() + data.len();
    let mut file = header(machine, 3, None);
    file.extend(segment(1, 5, 0, CODE, 0, CODE_SIZE));
    file.extend(segment(1, 4, begin, DATA, size, size as u64));
    file.extend(segment(0x6474_e550, 4, begin, DATA, lead.len(), lead.len() as u64));
    file.extend_from_slice(&lead);
    file.extend_from_slice(data);
    file
}

/// A file without sections whose data has to be found by what it is.
pub(crate) fn without_sections(machine: u16, data: &[u8]) -> Vec<u8> {
    let begin = HEADER + 2 * PROGRAM_HEADER;
    let mut file = header(machine, 2, None);
    file.extend(segment(1, 5, 0, CODE, 0, CODE_SIZE));
    file.extend(segment(1, 4, begin, DATA, data.len(), data.len() as u64));
    file.extend_from_slice(data);
    file
}

/// A file without sections or unwind data: code at [`BARE`], which the headers precede.
pub(crate) fn with_code(machine: u16, code: &[u8]) -> Vec<u8> {
    let size = (BARE + code.len() as u64).max(1);
    let mut file = header(machine, 1, None);
    file.extend(segment(1, 5, 0, 0, size as usize, size));
    file.resize(BARE as usize, 0);
    file.extend_from_slice(code);
    file
}

/// Address of the code in a file of [`with_code`].
pub(crate) const BARE: u64 = 0x1000;

/// A file that finds its `.eh_frame` by its section, and behind it `.eh_frame_hdr` by the program
/// header.
pub(crate) fn with_search_table(machine: u16, data: &[u8], header: &[u8]) -> Vec<u8> {
    let begin = HEADER + 3 * PROGRAM_HEADER;
    let names = "\0.eh_frame\0.shstrtab\0";
    let all = [data, header].concat();
    let names_at = begin + all.len();
    let mut file = self::header(machine, 3, Some(names_at + names.len()));
    file.extend(segment(1, 5, 0, CODE, 0, CODE_SIZE));
    file.extend(segment(1, 4, begin, DATA, all.len(), all.len() as u64));
    let mut of_header = segment(0x6474_e550, 4, begin + data.len(), DATA, header.len(), header.len() as u64);
    of_header[16..24].copy_from_slice(&(DATA + data.len() as u64).to_le_bytes());
    file.extend(of_header);
    file.extend(all);
    file.extend_from_slice(names.as_bytes());
    file.extend([0; SECTION_HEADER]);
    file.extend(section(1, 1, 2, DATA, begin, data.len()));
    file.extend(section(11, 3, 2, 0, names_at, names.len()));
    file
}

/// `.eh_frame_hdr` behind `size` bytes of `.eh_frame`: functions and the offsets of their
/// descriptions.
pub(crate) fn search_table(size: usize, pairs: &[(u64, usize)]) -> Vec<u8> {
    let from_header = |address: u64| (address.wrapping_sub(DATA + size as u64) as u32).to_le_bytes();
    let mut header = vec![1, 0x1b, 0x03, 0x3b];
    header.extend(from_header(DATA - 4));
    header.extend((pairs.len() as u32).to_le_bytes());
    for &(begin, offset) in pairs {
        header.extend(from_header(begin));
        header.extend(from_header(DATA + offset as u64));
    }
    header
}

/// The headers of a file held in memory.
pub(crate) fn open(file: Vec<u8>) -> Elf {
    Elf::open(Cursor::new(file)).expect("the headers are right")
}

fn header(machine: u16, segments: u16, sections: Option<usize>) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([3, 0]);
    file.extend(machine.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    file.extend(CODE.to_le_bytes());
    file.extend((HEADER as u64).to_le_bytes());
    file.extend((sections.unwrap_or(0) as u64).to_le_bytes());
    let (count, names) = if sections.is_some() { (3, 2) } else { (0, 0) };
    let sizes = [0, 0, HEADER as u16, PROGRAM_HEADER as u16, segments, SECTION_HEADER as u16, count, names];
    file.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
    file
}

fn segment(kind: u32, flags: u32, offset: usize, address: u64, size: usize, memory: u64) -> Vec<u8> {
    let kinds = [kind, flags].into_iter().flat_map(u32::to_le_bytes);
    let numbers = [offset as u64, address, address, size as u64, memory, 0x1000];
    kinds.chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect()
}

fn section(name: u32, kind: u32, flags: u64, address: u64, offset: usize, size: usize) -> Vec<u8> {
    let kinds = [name, kind].into_iter().flat_map(u32::to_le_bytes);
    let numbers = [flags, address, offset as u64, size as u64, 0, 8, 0];
    kinds.chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect()
}
