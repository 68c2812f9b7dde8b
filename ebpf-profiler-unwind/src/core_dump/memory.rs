//! The memory of a dump.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ebpf_profiler_core::elf::{Elf, Segment, segment_type};
use ebpf_profiler_core::trace::Stack;

/// The loadable segments of a dump, by address.
#[derive(Debug)]
pub(super) struct Contents {
    elf: Elf,
    segments: Vec<Segment>,
}

/// Read-only memory that is in a file.
#[derive(Clone, Debug)]
pub(super) struct Backing {
    /// Addresses in the process.
    pub(super) range: Range<u64>,
    /// Offset in the file.
    pub(super) offset: u64,
    pub(super) file: Arc<Elf>,
}

/// A segment of memory, of which a part may be in the dump.
struct Part<'a> {
    file: &'a Elf,
    offset: u64,
    size: u64,
}

impl Contents {
    pub(super) fn new(elf: Elf) -> Contents {
        let loaded = |segment: &&Segment| segment.kind == segment_type::PT_LOAD && segment.memory_size > 0;
        let mut segments: Vec<Segment> = elf.segments().iter().filter(loaded).copied().collect();
        segments.sort_by_key(|segment| segment.address);
        Contents { elf, segments }
    }

    pub(super) fn elf(&self) -> &Elf {
        &self.elf
    }

    /// Returns the number of bytes in the headers that lie behind the end of the file.
    pub(super) fn missing(&self) -> u64 {
        let behind = |segment: &Segment| segment.file_size - self.size_in_file(segment);
        self.segments.iter().map(behind).fold(0, u64::saturating_add)
    }

    /// Returns the index of the segment that contains `address`.
    pub(super) fn segment(&self, address: u64) -> Option<&Segment> {
        let next = self.segments.partition_point(|segment| segment.address <= address);
        let segment = self.segments.get(next.checked_sub(1)?)?;
        (address - segment.address < segment.memory_size).then_some(segment)
    }

    /// Returns the start of the first segment behind `address`.
    fn next_segment(&self, address: u64) -> u64 {
        let next = self.segments.partition_point(|segment| segment.address <= address);
        self.segments.get(next).map_or(u64::MAX, |segment| segment.address)
    }

    pub(super) fn code(&self) -> impl Iterator<Item = Range<u64>> {
        let code = self.segments.iter().filter(|segment| segment.is_code());
        code.map(|segment| segment.address..segment.address.saturating_add(segment.memory_size))
    }

    /// Fills `buffer` with the memory at `address`, from one or more segments.
    pub(super) fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < buffer.len() {
            let part = self.part(address.checked_add(done as u64)?)?;
            let rest = &mut buffer[done..];
            let size = part.size.min(rest.len() as u64) as usize;
            part.file.fill(part.offset, rest.get_mut(..size)?).ok()?;
            done += size;
        }
        Some(())
    }

    /// Returns the part of the file from `address` to the end of its segment.
    fn part(&self, address: u64) -> Option<Part<'_>> {
        let segment = self.segment(address)?;
        let into = address - segment.address;
        let size = self.size_in_file(segment).checked_sub(into).filter(|&size| size > 0)?;
        Some(Part { file: &self.elf, offset: segment.offset + into, size })
    }

    /// Returns the number of bytes of a segment that are in the file.
    fn size_in_file(&self, segment: &Segment) -> u64 {
        segment.file_size.min(self.elf.size().saturating_sub(segment.offset))
    }
}

/// Buffered reader of a dump's memory: walks read nearby addresses.
///
/// Memory that the dump lacks comes from mapped files, if they are available.
#[derive(Clone)]
pub struct Memory {
    contents: Arc<Contents>,
    backing: Arc<[Backing]>,
    /// The buffer: its address, size and bytes.
    at: u64,
    len: usize,
    bytes: [u8; PIECE],
}

/// Size of the buffer.
const PIECE: usize = 1024;

impl Memory {
    pub(super) fn new(contents: Arc<Contents>, backing: Arc<[Backing]>) -> Memory {
        Memory { contents, backing, at: 0, len: 0, bytes: [0; PIECE] }
    }

    /// Fills `buffer` with the memory at `address`. Returns `None` if a part of it is unknown.
    pub fn fill(&mut self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < buffer.len() {
            let known = self.known(address.checked_add(done as u64)?)?;
            let size = known.len().min(buffer.len() - done);
            buffer[done..done + size].copy_from_slice(&known[..size]);
            done += size;
        }
        Some(())
    }

    /// Returns the known bytes from `address` on, at least one.
    fn known(&mut self, address: u64) -> Option<&[u8]> {
        let into = address.wrapping_sub(self.at);
        if into >= self.len as u64 {
            self.turn_to(address)?;
        }
        self.bytes[..self.len].get(address.wrapping_sub(self.at) as usize..)
    }

    /// Reads the buffer that contains `address`, or the known part of it from there on.
    fn turn_to(&mut self, address: u64) -> Option<()> {
        self.len = 0;
        let aligned = address & !(PIECE as u64 - 1);
        let (at, part) = match self.part(aligned) {
            Some(part) if address - aligned < part.size => (aligned, part),
            _ => (address, self.part(address)?),
        };
        let size = part.size.min(PIECE as u64 - (at - aligned)) as usize;
        let (file, offset) = (part.file, part.offset);
        let mut bytes = [0; PIECE];
        file.fill(offset, bytes.get_mut(..size)?).ok()?;
        (self.bytes, self.at, self.len) = (bytes, at, size);
        Some(())
    }

    fn part(&self, address: u64) -> Option<Part<'_>> {
        self.contents.part(address).or_else(|| self.backed(address))
    }

    /// Memory of mapped files.
    ///
    /// Written memory is in the dump. If the dump lists writable memory and left it out, its
    /// contents are unknown.
    fn backed(&self, address: u64) -> Option<Part<'_>> {
        const WRITABLE: u32 = 2;
        let segment = self.contents.segment(address);
        if segment.is_some_and(|segment| segment.flags & WRITABLE != 0) {
            return None;
        }
        let next = self.backing.partition_point(|backing| backing.range.start <= address);
        let backing = self.backing.get(next.checked_sub(1)?)?;
        let end = match segment {
            Some(segment) => segment.address.saturating_add(segment.memory_size),
            None => self.contents.next_segment(address),
        };
        let size = end.min(backing.range.end).checked_sub(address).filter(|&size| size > 0)?;
        let offset = backing.offset.checked_add(address - backing.range.start)?;
        let in_file = backing.file.size().checked_sub(offset).filter(|&size| size > 0)?;
        Some(Part { file: &backing.file, offset, size: size.min(in_file) })
    }
}

impl Stack for Memory {
    fn read(&mut self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.fill(address, &mut word)?;
        Some(u64::from_le_bytes(word))
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("at", &self.at).field("len", &self.len).finish_non_exhaustive()
    }
}
