//! Memory shared with the kernel.

#![expect(unsafe_code, reason = "memory that the kernel shares")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A shared mapping of a file descriptor: of a BPF map or of a perf buffer.
#[derive(Debug)]
pub(in crate::live) struct Mmap {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping, and accesses it through atomics or under `&mut`.
unsafe impl Send for Mmap {}

impl Mmap {
    /// Maps `len` bytes from byte `offset`, a multiple of the page size.
    pub(in crate::live) fn new(
        fd: BorrowedFd<'_>,
        offset: usize,
        len: usize,
        writable: bool,
    ) -> io::Result<Mmap> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let (fd, offset) = (fd.as_raw_fd(), offset as libc::off_t);
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, offset) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mmap { at, len })
    }

    /// Returns the word at byte `at`, a multiple of eight within the mapping.
    pub(in crate::live) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len, "word {at} of a mapping of {} bytes", self.len);
        // SAFETY: in bounds and aligned by the assertion, valid as long as `self`; the kernel accesses
        // words of shared memory atomically, too.
        unsafe { &*self.at.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Copies `bytes` to byte `at`, a multiple of eight, word by word. Who reads them finds what was written before.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        fence(Ordering::Release);
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(at + index * 8).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// Returns the `T` at byte `at`; `None` out of bounds or unaligned.
    ///
    /// # Safety
    ///
    /// Every bit pattern must be a valid `T`, and no one may write there while the reference
    /// exists.
    pub(super) unsafe fn at<T>(&self, at: usize) -> Option<&T> {
        let fits = at.checked_add(size_of::<T>())? <= self.len && at.is_multiple_of(align_of::<T>());
        // SAFETY: in bounds and aligned; the rest is guaranteed by the caller.
        fits.then(|| unsafe { &*self.at.as_ptr().add(at).cast::<T>() })
    }

    /// Returns `len` bytes from byte `at`; `None` out of bounds.
    ///
    /// # Safety
    ///
    /// No one may write there while the reference exists.
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> Option<&[u8]> {
        let fits = at.checked_add(len)? <= self.len;
        // SAFETY: in bounds; the rest is guaranteed by the caller.
        fits.then(|| unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(at), len) })
    }

    /// Copies `buffer.len()` bytes from byte `at`.
    pub(super) fn copy_out(&self, at: usize, buffer: &mut [u8]) {
        assert!(at + buffer.len() <= self.len, "a copy out of bounds");
        // SAFETY: in bounds; the kernel doesn't write to the part of a buffer that it has released to the
        // reader.
        unsafe { std::ptr::copy_nonoverlapping(self.at.as_ptr().add(at), buffer.as_mut_ptr(), buffer.len()) };
    }
}

impl Drop for Mmap {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; no borrow is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Returns the size of a page of the running kernel, in bytes.
pub(super) fn page_size() -> usize {
    // SAFETY: the function has no conditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Returns a file in memory of `len` zeros, in place of the kernel's.
#[cfg(test)]
pub(super) fn memory_file(len: usize) -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd;

    // SAFETY: the name ends with a zero byte, and no one else owns the new descriptor.
    let file = unsafe { std::os::fd::OwnedFd::from_raw_fd(libc::memfd_create(c"kernel".as_ptr(), 0)) };
    // SAFETY: sets the length of a file that no one else uses.
    assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), len as libc::off_t) }, 0);
    file
}
