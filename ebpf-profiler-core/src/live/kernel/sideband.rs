//! The kernel's events about processes: one perf buffer per CPU.
//!
//! A record is `{ type: u32, misc: u16, size: u16 }`, a body, and `{ pid: u32, tid: u32, time: u64
//! }`.
//!
//! Layout and order of accesses: `perf_event_mmap_page` and `PERF_RECORD_MMAP2` in [perf_event.h](https://github.com/torvalds/linux/blob/v6.12/include/uapi/linux/perf_event.h).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::mmap::{Mmap, page_size};
use super::perf;
use crate::sample::{Batch, FileId, Life, LifeEvent, MapEvent};

/// Bytes in the buffer of one CPU, a power of two: 2,000 mappings. The kernel lets every user lock
/// twice as much.
const SIZE: usize = 256 * 1024;

/// Bytes that wait when the reader is woken: the first record. Walks through a mapping that was
/// replaced are lost until then.
const WATERMARK: u32 = 1;

const HEAD: usize = 8;
const TAIL: usize = 16;

/// Offsets of the kernel's write position and our read position in the first page of the buffer.
const WRITTEN: usize = 1024;
const READ: usize = 1032;

/// The events of one CPU.
pub(in crate::live) struct Sideband {
    event: OwnedFd,
    buffer: Mmap,
    /// Bytes in front of the records: a page.
    page: usize,
    record: Vec<u8>,
    /// The path of the last mapping: the next one often has the same.
    path: Arc<str>,
}

impl Sideband {
    /// Opens the events of `cpu`.
    pub(in crate::live) fn open(cpu: u32) -> io::Result<Sideband> {
        let event = perf::life(cpu, WATERMARK)?;
        let page = page_size();
        let buffer = Mmap::new(event.as_fd(), 0, page + SIZE, true)?;
        Ok(Sideband { event, buffer, page, record: Vec::new(), path: Arc::default() })
    }

    /// Returns a descriptor that is readable when the watermark is reached.
    pub(in crate::live) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Moves all records into `batch`.
    pub(in crate::live) fn drain(&mut self, batch: &mut Batch) {
        let written = self.buffer.word(WRITTEN).load(Ordering::Acquire);
        let mut read = self.buffer.word(READ).load(Ordering::Relaxed);
        while read < written {
            let Some(size) = self.next(read) else {
                read = written;
                break;
            };
            if let Some(event) = decode(&self.record, &mut self.path) {
                batch.push_life(event);
            }
            read += size as u64;
        }
        self.buffer.word(READ).store(read, Ordering::Release);
    }

    /// Copies the record at `position` out of the ring and returns its size.
    fn next(&mut self, position: u64) -> Option<usize> {
        let mut head = [0; HEAD];
        self.copy(position, &mut head);
        let size = usize::from(u16::from_ne_bytes([head[6], head[7]]));
        if size < HEAD {
            return None;
        }
        let mut record = std::mem::take(&mut self.record);
        record.resize(size, 0);
        self.copy(position, &mut record);
        self.record = record;
        Some(size)
    }

    /// Copies from the ring, around its end.
    fn copy(&self, position: u64, to: &mut [u8]) {
        let at = position as usize % SIZE;
        let first = to.len().min(SIZE - at);
        let (left, right) = to.split_at_mut(first);
        self.buffer.copy_out(self.page + at, left);
        self.buffer.copy_out(self.page, right);
    }
}

/// Types of record.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const EXIT: u32 = 4;
    pub(super) const FORK: u32 = 7;
    pub(super) const MMAP2: u32 = 10;
}

/// Bits of a head's `misc`.
mod misc {
    pub(super) const COMM_EXEC: u16 = 1 << 13;
    pub(super) const BUILD_ID: u16 = 1 << 14;
}

/// Decodes one record; `None` if it is malformed or of no interest.
fn decode(record: &[u8], last_path: &mut Arc<str>) -> Option<LifeEvent> {
    let body = Fields(record.get(HEAD..record.len().checked_sub(TAIL)?)?);
    let tail = Fields(&record[record.len() - TAIL..]);
    let flags = u16::from_ne_bytes([record[4], record[5]]);
    let event = |pid, life| Some(LifeEvent { time: tail.u64(8)?, pid, life });
    match Fields(record).u32(0)? {
        kind::FORK => {
            let (pid, parent) = (body.u32(0)?, body.u32(4)?);
            // For a new thread both ids are those of its process.
            if pid == parent { None } else { event(pid, Life::Forked { parent }) }
        }
        kind::EXIT => {
            let (pid, tid) = (body.u32(0)?, body.u32(8)?);
            if pid == tid { event(pid, Life::Exited) } else { None }
        }
        kind::COMM if flags & misc::COMM_EXEC != 0 => event(body.u32(0)?, Life::Executed),
        kind::MMAP2 => event(body.u32(0)?, Life::Mapped(mapping(&body, flags, last_path)?)),
        kind::LOST => event(0, Life::Lost { count: body.u64(8)? }),
        _ => None,
    }
}

/// Decodes the body of an `MMAP2` record; `None` unless it is executable user memory.
fn mapping(body: &Fields<'_>, flags: u16, last_path: &mut Arc<str>) -> Option<MapEvent> {
    const PROT_EXEC: u32 = 4;
    let (start, len, offset) = (body.u64(8)?, body.u64(16)?, body.u64(24)?);
    let protection = body.u32(56)?;
    if protection & PROT_EXEC == 0 || start >> 63 != 0 {
        return None;
    }
    let path = body.0.get(64..)?;
    let path = &path[..path.iter().position(|&byte| byte == 0)?];
    if path != last_path.as_bytes() {
        *last_path = String::from_utf8_lossy(path).into();
    }
    let path = last_path.clone();
    let file = if flags & misc::BUILD_ID != 0 {
        let size = usize::from(*body.0.get(32)?).min(20);
        FileId::BuildId(body.0.get(36..36 + size)?.into())
    } else {
        FileId::of(&path, (body.u32(32)?, body.u32(36)?), body.u64(40)?).with_generation(body.u64(48)?)
    };
    Some(MapEvent { start, end: start.checked_add(len)?, offset, file, path })
}

/// Bytes with integers at offsets.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }

    fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }
}
