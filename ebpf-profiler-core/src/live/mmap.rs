//! Memory that is shared with the kernel.

#![expect(unsafe_code, reason = "memory that the kernel shares")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A shared mapping of a file descriptor: of a BPF map or of a perf buffer.
#[derive(Debug)]
pub(super) struct Mmap {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned by the value and reached through atomics or under `&mut`.
unsafe impl Send for Mmap {}

impl Mmap {
    /// Maps `len` bytes from byte `offset` on, a multiple of a page.
    pub(super) fn new(fd: BorrowedFd<'_>, offset: usize, len: usize, writable: bool) -> io::Result<Mmap> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let (fd, offset) = (fd.as_raw_fd(), offset as libc::off_t);
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, offset) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mmap { at, len })
    }

    /// The word at byte `at`, a multiple of eight within the mapping.
    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len, "word {at} of a mapping of {} bytes", self.len);
        // SAFETY: in bounds and aligned by the assertion, alive as long as `self`; the kernel accesses words
        // of shared memory as a whole too.
        unsafe { &*self.at.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Copies `bytes` to byte `at`, a multiple of eight, a word at a time.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(at + index * 8).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// The `T` at byte `at`.
    ///
    /// # Safety
    ///
    /// Every bit pattern must be a valid `T`, and nobody else may write there while the reference lives.
    pub(super) unsafe fn at<T>(&self, at: usize) -> Option<&T> {
        let fits = at.checked_add(size_of::<T>())? <= self.len && at.is_multiple_of(align_of::<T>());
        // SAFETY: in bounds and aligned; the rest is the caller's promise.
        fits.then(|| unsafe { &*self.at.as_ptr().add(at).cast::<T>() })
    }

    /// `len` bytes from byte `at` on.
    ///
    /// # Safety
    ///
    /// Nobody may write there while the reference lives.
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> Option<&[u8]> {
        let fits = at.checked_add(len)? <= self.len;
        // SAFETY: in bounds; the rest is the caller's promise.
        fits.then(|| unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(at), len) })
    }

    /// Copies `buffer.len()` bytes from byte `at` on.
    pub(super) fn copy_out(&self, at: usize, buffer: &mut [u8]) {
        assert!(at + buffer.len() <= self.len, "a copy out of bounds");
        // SAFETY: in bounds; the kernel doesn't write to the part of a buffer that it has handed over.
        unsafe { std::ptr::copy_nonoverlapping(self.at.as_ptr().add(at), buffer.as_mut_ptr(), buffer.len()) };
    }
}

impl Drop for Mmap {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}
