//! Perf events in the kernel's own buffers, which no program of ours takes part in.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

/// Type of the record of a new thread.
pub const FORK: u32 = 7;
/// Type of the record of a sample.
pub const SAMPLE: u32 = 9;

/// Words of `struct perf_event_attr`.
pub const ATTRIBUTES: usize = 14;

const PAGE: usize = 4096;

/// Position in the page of the kernel's state.
const HEAD: usize = 1024;

/// The events of one CPU.
pub struct Ring {
    event: OwnedFd,
    /// A page of the kernel's state, then the records.
    memory: *mut u8,
    /// Bytes of records.
    bytes: usize,
}

/// A record.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// Type of the record.
    pub kind: u32,
    bytes: &'a [u8],
}

impl Record<'_> {
    /// Returns the field of 4 bytes at an offset from the record's beginning.
    pub fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes[offset..offset + 4].try_into().unwrap())
    }

    /// Returns the field of 8 bytes at an offset from the record's beginning.
    pub fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes[offset..offset + 8].try_into().unwrap())
    }
}

/// Returns the numbers of all CPUs.
pub fn cpus() -> impl Iterator<Item = i32> {
    // SAFETY: the call has no conditions.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    0..count as i32
}

/// Returns the attributes of an event that is sampled with a period. Nobody is woken for its
/// records.
pub fn attributes(kind: u64, event: u64, period: u64, fields: u64) -> [u64; ATTRIBUTES] {
    const WATERMARK: u64 = 1 << 14;
    let mut attributes = [0; ATTRIBUTES];
    attributes[0] = kind | (size_of_val(&attributes) as u64) << 32;
    attributes[1..=3].copy_from_slice(&[event, period, fields]);
    attributes[5] = WATERMARK;
    attributes
}

impl Ring {
    /// Starts an event on a CPU, with room for `bytes` bytes of records, a power of two.
    pub fn open(attributes: &[u64; ATTRIBUTES], cpu: i32, bytes: usize) -> io::Result<Ring> {
        let mut attributes = *attributes;
        // The number of bytes until someone is woken.
        attributes[6] = bytes as u64;
        // SAFETY: the attributes have the size that they state.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), -1, cpu, -1, 8) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor.
        let event = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, event.as_raw_fd());
        // SAFETY: the kernel chooses the address.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), PAGE + bytes, access, libc::MAP_SHARED, fd, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { event, memory: memory.cast(), bytes })
    }

    /// Stops the event and returns its records.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        const DISABLE: libc::c_ulong = 0x2401;
        // SAFETY: the request takes no argument.
        assert_eq!(unsafe { libc::ioctl(self.event.as_raw_fd(), DISABLE as _, 0) }, 0);
        // SAFETY: the position is in the mapping, and aligned.
        let head = unsafe { self.memory.add(HEAD).cast::<u64>().read_volatile() };
        fence(Ordering::Acquire);
        assert!(head < (self.bytes - PAGE) as u64, "the trace has {head} bytes and is full");
        // SAFETY: the kernel has written `head` bytes, and writes no more, since the event is disabled.
        let mut left = unsafe { std::slice::from_raw_parts(self.memory.add(PAGE), head as usize) };
        std::iter::from_fn(move || {
            let first = Record { kind: 0, bytes: left.get(..8)? };
            let (kind, length) = (first.u32(0), first.u32(4) >> 16);
            let (bytes, rest) = left.split_at(length as usize);
            left = rest;
            Some(Record { kind, bytes })
        })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's.
        unsafe { libc::munmap(self.memory.cast(), PAGE + self.bytes) };
    }
}
