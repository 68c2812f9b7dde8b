//! The ring through which the kernel side sends its records.
//!
//! ```text
//!   page 0     the read position, which we write
//!   page 1     the write position of the kernel
//!   page 2…    the data; a record beyond the end continues at the beginning
//! ```
//!
//! A record is `{ length: u32, page: u32 }` and its bytes, padded to a multiple of eight. The two
//! highest bits of the length mark a record that is being written, or discarded.
//!
//! The kernel offers the data a second time behind its end, where every record is in one piece.
//! That is not mapped, as its pages would count twice as memory of this process; a record in two
//! pieces is copied instead.
//!
//! Layout and order of accesses: [ringbuf.c of the kernel](https://github.com/torvalds/linux/blob/v6.12/kernel/bpf/ringbuf.c),
//! [reader in libbpf](https://github.com/torvalds/linux/blob/v6.12/tools/lib/bpf/ringbuf.c).

#![expect(unsafe_code, reason = "memory that the kernel shares")]

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use ebpf_programs::abi::config::Wake;

use super::bpf::Map;
use super::mmap::{Mmap, page_size};

const HEAD: u64 = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// The reader's end of a ring.
#[derive(Debug)]
pub(in crate::live) struct Ring {
    map: Map,
    records: Records,
}

/// The shared memory of a ring.
#[derive(Debug)]
struct Records {
    ours: Mmap,
    theirs: Data,
    /// Our read position.
    read: u64,
}

impl Ring {
    /// Returns the reader of a ring buffer map.
    ///
    /// # Errors
    ///
    /// Fails if the map cannot be mapped into memory.
    pub(in crate::live) fn new(map: Map) -> io::Result<Ring> {
        let ours = Mmap::new(map.as_fd(), 0, page_size(), true)?;
        let theirs = Data::new(map.as_fd(), page_size(), map.entries() as usize)?;
        Ok(Ring { map, records: Records::new(ours, theirs) })
    }

    /// Returns a descriptor that is readable after a wake-up by the kernel side.
    pub(in crate::live) fn as_raw_fd(&self) -> RawFd {
        self.map.as_fd().as_raw_fd()
    }

    /// Passes the records up to now to `take`. The kernel may write further ones as fast as these are
    /// read: with them this would never end.
    pub(in crate::live) fn drain(&mut self, take: impl FnMut(&[u8])) {
        self.records.drain(take);
    }
}

impl Records {
    fn new(ours: Mmap, theirs: Data) -> Records {
        let read = ours.word(0).load(Ordering::Relaxed);
        Records { ours, theirs, read }
    }

    fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let written = self.theirs.written();
        while self.read < written {
            // The kernel writes the record before it sets the length.
            let length = self.theirs.word(self.read).load(Ordering::Acquire) as u32;
            if length & BUSY != 0 {
                return;
            }
            let bytes = (length & !DISCARDED) as usize;
            if length & DISCARDED == 0 {
                // SAFETY: the kernel doesn't write to a finished record before our read position is behind
                // it.
                let record = unsafe { self.theirs.record(self.read + HEAD, bytes) };
                record.into_iter().for_each(&mut take);
            }
            self.read += (HEAD + bytes as u64).next_multiple_of(8);
            self.ours.word(0).store(self.read, Ordering::Release);
        }
    }
}

/// Our side of the state of [wake-ups](Wake).
#[derive(Debug)]
pub(in crate::live) struct Drains {
    memory: Mmap,
    count: u64,
}

impl Drains {
    /// Returns our side of a map.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be mapped into memory.
    pub(in crate::live) fn new(map: BorrowedFd<'_>) -> io::Result<Drains> {
        let mut drains = Drains { memory: Mmap::new(map, 0, page_size(), true)?, count: 0 };
        // From the start on a record may request a wake-up.
        drains.begin();
        Ok(drains)
    }

    /// Announces a read of all records. Those that come after it request a wake-up.
    pub(in crate::live) fn begin(&mut self) {
        self.count += 1;
        self.memory.word(offset_of!(Wake, drains)).store(self.count, Ordering::Relaxed);
        // No record is read before this.
        fence(Ordering::SeqCst);
    }

    /// Returns `true` if a wake-up was requested since the last [`begin`](Drains::begin): records may
    /// have come too late for that read.
    pub(in crate::live) fn is_requested(&self) -> bool {
        self.memory.word(offset_of!(Wake, woken)).load(Ordering::Acquire) == self.count
    }
}

/// The pages that the kernel writes: its position, and the data. A position is one in the data
/// modulo the size.
#[derive(Debug)]
struct Data {
    memory: Mmap,
    /// Bytes in front of the data: a page.
    page: usize,
    /// Bytes of data, a power of two.
    size: usize,
    /// The last record that was in two pieces.
    joined: Vec<u8>,
}

impl Data {
    /// Maps the pages from byte `offset`: the write position, and `size` bytes of data.
    fn new(fd: BorrowedFd<'_>, offset: usize, size: usize) -> io::Result<Data> {
        let page = page_size();
        Ok(Data { memory: Mmap::new(fd, offset, page + size, false)?, page, size, joined: Vec::new() })
    }

    /// Returns the write position.
    fn written(&self) -> u64 {
        self.memory.word(0).load(Ordering::Acquire)
    }

    /// Returns the word at a position.
    fn word(&self, position: u64) -> &AtomicU64 {
        self.memory.word(self.offset(position))
    }

    /// Returns the `len` bytes from a position; `None` if the data has fewer.
    ///
    /// # Safety
    ///
    /// No one may write there while the reference exists.
    unsafe fn record(&mut self, position: u64, len: usize) -> Option<&[u8]> {
        let at = self.offset(position);
        let first = len.min(self.page + self.size - at);
        if first == len {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.memory.bytes(at, len) };
        }
        if len > self.size {
            return None;
        }
        self.joined.resize(len, 0);
        let (head, tail) = self.joined.split_at_mut(first);
        self.memory.copy_out(at, head);
        self.memory.copy_out(self.page, tail);
        Some(&self.joined)
    }

    /// Returns the byte of the mapping at a position.
    fn offset(&self, position: u64) -> usize {
        self.page + (position as usize & (self.size - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::mmap::memory_file;
    use super::*;

    /// Bytes of the data, a page of any machine.
    const PAGE: usize = 1 << 16;

    /// Returns data of one page, whose byte `n` is `n % 251`.
    fn data() -> Data {
        let file = memory_file(page_size() + PAGE);
        let mut kernel = Mmap::new(file.as_fd(), 0, page_size() + PAGE, true).unwrap();
        kernel.write(0, &(7u64 << 20).to_ne_bytes());
        kernel.write(page_size(), &bytes(0, PAGE));
        Data::new(file.as_fd(), 0, PAGE).unwrap()
    }

    fn bytes(from: usize, len: usize) -> Vec<u8> {
        (from..from + len).map(|at| (at % PAGE % 251) as u8).collect()
    }

    #[test]
    fn a_record_is_in_one_piece_wherever_it_begins() {
        let mut data = data();
        assert_eq!(data.written(), 7 << 20);
        for begin in (0..PAGE).step_by(8) {
            for len in [0, 8, 100, 4000, PAGE] {
                for round in [0, 5] {
                    let position = (round * PAGE + begin) as u64;
                    // SAFETY: no one writes to the file.
                    assert_eq!(unsafe { data.record(position, len) }, Some(&bytes(begin, len)[..]));
                }
            }
        }
    }

    #[test]
    fn a_read_ends_though_the_kernel_is_as_fast() {
        let page = page_size();
        let file = memory_file(2 * page + PAGE);
        let memory = |offset, len| Mmap::new(file.as_fd(), offset, len, true).unwrap();
        let theirs = Data::new(file.as_fd(), page, PAGE).unwrap();
        let mut records = Records::new(memory(0, page), theirs);
        // Records of eight bytes, all zero but for the length.
        let mut kernel = memory(page, page + PAGE);
        let head = 8u64.to_ne_bytes();
        (0..PAGE).step_by(16).for_each(|at| kernel.write(page + at, &head));
        kernel.word(0).store(32, Ordering::Release);
        for round in 1..5 {
            let mut count = 0;
            records.drain(|_| {
                kernel.word(0).fetch_add(16, Ordering::Release);
                count += 1;
            });
            assert_eq!(count, 2, "those of the time at which the read began");
            assert_eq!(records.ours.word(0).load(Ordering::Acquire), round * 32);
        }
    }

    #[test]
    fn one_wake_up_is_requested_for_each_time_that_records_are_read() {
        let file = memory_file(PAGE);
        let kernel = Mmap::new(file.as_fd(), 0, PAGE, true).unwrap();
        let [drains, woken] = [offset_of!(Wake, drains), offset_of!(Wake, woken)].map(|at| kernel.word(at));
        // As the kernel side does for an urgent record.
        let wakes =
            || woken.swap(drains.load(Ordering::SeqCst), Ordering::SeqCst) != drains.load(Ordering::SeqCst);
        let mut ours = Drains::new(file.as_fd()).unwrap();
        assert!(!ours.is_requested() && wakes(), "the first record");
        assert!(!wakes() && ours.is_requested(), "the second, which waits for the same wake-up");
        ours.begin();
        assert!(!ours.is_requested(), "both are read now");
        // One that comes while others are read, and may be behind the one that is read: they are read once more.
        assert!(wakes() && ours.is_requested());
    }

    #[test]
    fn no_record_is_larger_than_the_ring() {
        let mut data = data();
        // SAFETY: no one writes to the file.
        assert_eq!(unsafe { data.record(8, PAGE + 1) }, None);
    }
}
