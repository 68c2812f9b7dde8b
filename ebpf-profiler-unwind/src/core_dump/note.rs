//! Notes of a core dump: threads and mapped files.
//!
//! ```text
//!   note = name size: u32   description size: u32   type: u32   name, padded to 4   description, padded to 4
//! ```
//!
//! A thread's notes take some kilobytes, of which the registers are a few hundred bytes: only
//! headers and relevant descriptions are read.

use ebpf_profiler_core::elf::{Elf, Segment, segment_type};

use super::Gaps;
use super::arch::Layout;
use super::mapped::{self, MappedFile};
use super::process::Process;
use super::thread::Thread;
use crate::bytes::Bytes;

/// Contents of the notes.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) threads: Vec<Thread>,
    pub(super) files: Vec<MappedFile>,
    /// Address of the vDSO.
    pub(super) vdso: Option<u64>,
    pub(super) process: Process,
    pub(super) gaps: Gaps,
    /// Number of notes read so far.
    count: u32,
}

/// Types of notes of owner `CORE`.
mod kind {
    pub(super) const PRSTATUS: u32 = 1;
    pub(super) const PRPSINFO: u32 = 3;
    pub(super) const AUXV: u32 = 6;
    pub(super) const FILE: u32 = 0x4649_4c45;
    /// Type of a note of owner `LINUX`, behind the thread's registers on arm64.
    pub(super) const ARM_TLS: u32 = 0x401;
}

/// Maximum number of notes: about eight per thread.
const MAX_NOTES: u32 = 1 << 20;

const MAX_THREADS: usize = 1 << 16;

/// Maximum size of a description: the kernel's list of files has at most 4 MiB by default.
const MAX_DESCRIPTION: u64 = 64 << 20;

const CORE: &[u8] = b"CORE\0";

const LINUX: &[u8] = b"LINUX\0";

/// A note whose description is not read.
struct Note {
    owner: Owner,
    kind: u32,
    offset: u64,
    size: u64,
    /// Offset of the next one.
    next: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Core,
    Linux,
    Other,
}

impl Notes {
    /// Parses the notes of all segments.
    pub(super) fn read(&mut self, elf: &Elf, layout: &Layout) {
        for segment in elf.segments().iter().filter(|segment| segment.kind == segment_type::PT_NOTE) {
            self.segment(elf, segment, layout);
        }
    }

    fn segment(&mut self, elf: &Elf, segment: &Segment, layout: &Layout) {
        let end = segment.offset.saturating_add(segment.file_size);
        let mut at = segment.offset;
        while at < end {
            if self.count == MAX_NOTES {
                self.gaps.too_many = true;
                return;
            }
            self.count += 1;
            let Some(note) = Note::read(elf, at, end) else {
                self.gaps.notes += 1;
                return;
            };
            at = note.next;
            if self.take(elf, &note, layout).is_none() {
                self.gaps.notes += 1;
            }
        }
    }

    /// Parses a relevant note. Returns `None` if it is malformed.
    fn take(&mut self, elf: &Elf, note: &Note, layout: &Layout) -> Option<()> {
        match (note.owner, note.kind) {
            (Owner::Core, kind::PRSTATUS) if self.threads.len() == MAX_THREADS => self.gaps.too_many = true,
            (Owner::Core, kind::PRSTATUS) => {
                self.threads.push(Thread::parse(&note.description(elf)?, layout)?)
            }
            (Owner::Core, kind::PRPSINFO) => self.process = Process::parse(&note.description(elf)?)?,
            (Owner::Core, kind::AUXV) => self.vdso = vdso(&note.description(elf)?).or(self.vdso),
            (Owner::Core, kind::FILE) if self.files.is_empty() => {
                self.files = mapped::parse(&note.description(elf)?)?
            }
            (Owner::Linux, kind::ARM_TLS) => {
                let pointer = Bytes(&note.description(elf)?).u64()?;
                self.threads.last_mut()?.registers.thread = pointer;
            }
            _ => {}
        }
        Some(())
    }
}

impl Note {
    fn read(elf: &Elf, at: u64, end: u64) -> Option<Note> {
        const HEADER: usize = 12;
        let mut head = [0; HEADER + LINUX.len()];
        // The last note of a segment may be shorter.
        let size = usize::try_from(end - at).ok()?.min(head.len());
        elf.fill(at, &mut head[..size]).ok()?;
        let mut bytes = Bytes(head.get(..size)?);
        let (name, size, kind) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
        let owner = match bytes.0.get(..name as usize) {
            Some(CORE) => Owner::Core,
            Some(LINUX) => Owner::Linux,
            _ => Owner::Other,
        };
        let offset = at.checked_add(HEADER as u64 + padded(name))?;
        let next = offset.checked_add(padded(size))?;
        (offset + u64::from(size) <= end).then_some(Note { owner, kind, offset, size: size.into(), next })
    }

    fn description(&self, elf: &Elf) -> Option<Vec<u8>> {
        if self.size > MAX_DESCRIPTION {
            return None;
        }
        elf.bytes(self.offset, self.size).ok()
    }
}

fn padded(size: u32) -> u64 {
    u64::from(size).next_multiple_of(4)
}

/// Finds the address of the vDSO in `{key, value}` pairs.
fn vdso(description: &[u8]) -> Option<u64> {
    const AT_SYSINFO_EHDR: u64 = 33;
    let mut bytes = Bytes(description);
    loop {
        let (key, value) = (bytes.u64()?, bytes.u64()?);
        if key == AT_SYSINFO_EHDR {
            return Some(value);
        }
    }
}
