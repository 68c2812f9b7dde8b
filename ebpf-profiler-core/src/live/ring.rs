//! The ring through which the kernel side sends its records.
//!
//! ```text
//!   page 0     the read position, which we write
//!   page 1     the write position of the kernel
//!   page 2…    the data, mapped twice in a row: a record beyond the end continues in the second mapping
//! ```
//!
//! A record is `{ length: u32, page: u32 }` and its bytes, padded to a multiple of eight. The two highest bits
//! of the length mark a record that is being written, or discarded.

#![expect(unsafe_code, reason = "memory that the kernel shares")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::Ordering;

use super::bpf::Map;
use super::mmap::Mmap;

const PAGE: usize = 4096;
const HEAD: u64 = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// The reader's end of a ring.
#[derive(Debug)]
pub(super) struct Ring {
    map: Map,
    ours: Mmap,
    theirs: Mmap,
    /// Our read position.
    read: u64,
    /// Bytes of data, a power of two.
    size: u64,
}

impl Ring {
    /// Returns the reader of a ring buffer map.
    ///
    /// # Errors
    ///
    /// Fails if the map cannot be mapped into memory.
    pub(super) fn new(map: Map) -> io::Result<Ring> {
        let size = map.entries() as usize;
        let ours = Mmap::new(map.as_fd(), 0, PAGE, true)?;
        let theirs = Mmap::new(map.as_fd(), PAGE, PAGE + 2 * size, false)?;
        let read = ours.word(0).load(Ordering::Relaxed);
        Ok(Ring { map, ours, theirs, read, size: size as u64 })
    }

    /// Returns a descriptor that is readable after a wake-up by the kernel side.
    pub(super) fn as_raw_fd(&self) -> RawFd {
        self.map.as_fd().as_raw_fd()
    }

    /// Passes all records to `take`.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let mut written = self.written();
        while self.read < written {
            let at = PAGE + (self.read & (self.size - 1)) as usize;
            // The kernel writes the record before it sets the length.
            let length = self.theirs.word(at).load(Ordering::Acquire) as u32;
            if length & BUSY != 0 {
                return;
            }
            let bytes = (length & !DISCARDED) as usize;
            if length & DISCARDED == 0 {
                // SAFETY: the kernel doesn't write to a finished record before our read position is behind it.
                let record = unsafe { self.theirs.bytes(at + HEAD as usize, bytes) };
                record.into_iter().for_each(&mut take);
            }
            self.read += (HEAD + bytes as u64).next_multiple_of(8);
            self.ours.word(0).store(self.read, Ordering::Release);
            if self.read >= written {
                written = self.written();
            }
        }
    }

    fn written(&self) -> u64 {
        self.theirs.word(0).load(Ordering::Acquire)
    }
}
