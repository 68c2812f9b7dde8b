//! Generations of inodes, which tell a file from another one that had its inode number before.

#![expect(unsafe_code, reason = "a system call that the standard library does not have")]

use std::fs::File;
use std::os::fd::AsRawFd;

/// Returns the generation of a file's inode; `None` if the file system has none.
pub(super) fn generation(file: &File) -> Option<u64> {
    const GET_VERSION: libc::c_ulong = 0x8008_7601;
    let mut generation: libc::c_long = 0;
    // SAFETY: the request writes an integer of at most that size.
    let error = unsafe { libc::ioctl(file.as_raw_fd(), GET_VERSION as _, &raw mut generation) };
    (error == 0 && generation as u32 != 0).then_some(u64::from(generation as u32))
}
