//! Replaces a file that is missing on the machine of the replay: its code segments and build id,
//! without contents.
//!
//! With it, addresses are converted to addresses in that file, debug files are found by build id,
//! and no name is taken from another file of the same path.

use std::io;

use object::elf;

use super::record::{Code, Facts};
use crate::elf::{Arch, ReadAt, Segment};

/// An ELF file of the recorded size: headers, then zeros.
pub(super) struct Skeleton {
    size: u64,
    head: Vec<u8>,
}

const HEADER: usize = 64;
const SEGMENT: usize = 56;

impl Skeleton {
    pub(super) fn new(facts: &Facts) -> Skeleton {
        let head = facts.code.as_ref().map(head).unwrap_or_default();
        Skeleton { size: facts.size.max(head.len() as u64), head }
    }
}

impl ReadAt for Skeleton {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.fill(0);
        let rest = usize::try_from(offset).ok().and_then(|at| self.head.get(at..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(())
    }
}

/// Encodes the file header, the program headers and the note with the build id.
fn head(code: &Code) -> Vec<u8> {
    let note = note(&code.build_id);
    let note_at = (HEADER + SEGMENT * (code.segments.len() + 1)) as u64;
    let mut head = file_header(code);
    for segment in &code.segments {
        segment_header(&mut head, segment);
    }
    let size = note.len() as u64;
    let segment = Segment {
        kind: elf::PT_NOTE,
        flags: 4,
        offset: note_at,
        address: 0,
        file_size: size,
        memory_size: size,
    };
    segment_header(&mut head, &segment);
    head.extend(note);
    head
}

fn file_header(code: &Code) -> Vec<u8> {
    let machine = match code.arch {
        Arch::X86_64 => elf::EM_X86_64,
        Arch::Aarch64 => elf::EM_AARCH64,
    };
    let count = code.segments.len() as u16 + 1;
    let mut head = Vec::with_capacity(HEADER);
    head.extend([0x7f, b'E', b'L', b'F', elf::ELFCLASS64, elf::ELFDATA2LSB, elf::EV_CURRENT, 0]);
    head.extend([0; 8]);
    head.extend(elf::ET_DYN.to_le_bytes());
    head.extend(machine.to_le_bytes());
    head.extend(1u32.to_le_bytes());
    // Entry point, offset of the program headers, offset of the section headers.
    head.extend([0, HEADER as u64, 0].iter().flat_map(|word| word.to_le_bytes()));
    head.extend(0u32.to_le_bytes());
    head.extend([HEADER as u16, SEGMENT as u16, count, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    head
}

fn segment_header(head: &mut Vec<u8>, segment: &Segment) {
    let Segment { kind, flags, offset, address, file_size, memory_size } = *segment;
    head.extend(kind.to_le_bytes());
    head.extend(flags.to_le_bytes());
    let words = [offset, address, address, file_size, memory_size, 4];
    head.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// Encodes the build id note; empty without a build id.
fn note(build_id: &[u8]) -> Vec<u8> {
    if build_id.is_empty() {
        return Vec::new();
    }
    let mut note = Vec::new();
    let words = [4, build_id.len() as u32, elf::NT_GNU_BUILD_ID];
    note.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    note.extend(b"GNU\0");
    note.extend(build_id);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::{Elf, segment_type};

    #[test]
    fn converts_addresses_and_keeps_the_build_id() {
        let segment = Segment {
            kind: segment_type::PT_LOAD,
            flags: 5,
            offset: 0x2000,
            address: 0x3000,
            file_size: 0x1000,
            memory_size: 0x1000,
        };
        for build_id in [vec![], vec![7; 20], vec![1, 2, 3]] {
            let code = Code {
                arch: Arch::HOST,
                build_id: build_id.clone(),
                fingerprint: 0,
                segments: vec![segment],
            };
            let facts = Facts { size: 100_000, code: Some(code), foreign: None };
            let elf = Elf::open(Skeleton::new(&facts)).unwrap();
            assert_eq!(elf.code_address(0x2010), Some(0x3010));
            assert_eq!(elf.build_id().unwrap_or_default(), build_id);
            assert_eq!(elf.size(), 100_000);
            assert_eq!(facts.matches(&elf), !build_id.is_empty());
        }
    }

    #[test]
    fn accepts_every_size_without_panic() {
        for size in [0, 1, 64, u64::MAX] {
            let code = Code { arch: Arch::HOST, build_id: vec![], fingerprint: 0, segments: vec![] };
            let skeleton = Skeleton::new(&Facts { size, code: Some(code), foreign: None });
            assert!(skeleton.read_at(u64::MAX, &mut [0; 8]).is_err());
            assert!(Elf::open(skeleton).is_ok());
        }
    }
}
