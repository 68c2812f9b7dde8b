//! The memory of other processes.

#![expect(unsafe_code, reason = "a system call that the standard library does not have")]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Fills `buffer` with the memory of a process from `address`.
///
/// One system call, `process_vm_readv`. If that fails, `/proc/PID/mem`, which takes three but also reads memory that is
/// executable and not readable.
pub(super) fn read(pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    static AT_ONCE: OnceLock<bool> = OnceLock::new();
    let may = AT_ONCE.get_or_init(|| fs::read_to_string("/proc/self/status").is_ok_and(|it| is_ours(&it)));
    if *may && read_at_once(pid, address, buffer) {
        return Ok(());
    }
    read_file(pid, address, buffer)
}

/// Returns `true` if `/proc` has the process ids that system calls use. A `/proc` of another namespace, as in some
/// containers, has others, and a system call would read another process.
pub(super) fn is_ours(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_ascii_whitespace().count() == 1)
}

/// Reads by system call. Returns `true` if all of `buffer` was filled.
fn read_at_once(pid: u32, address: u64, buffer: &mut [u8]) -> bool {
    let here = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: the kernel writes to `here`, which is all of a buffer that is borrowed for the call. `there` belongs to
    // the other process, and the kernel checks it.
    let read = unsafe { libc::process_vm_readv(pid as i32, &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(read) == Ok(buffer.len())
}

fn read_file(pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    File::open(format!("/proc/{pid}/mem"))?.read_exact_at(buffer, address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_read_the_same_and_not_what_is_not_there() {
        let pid = std::process::id();
        let there = [7_u8, 1, 8, 2, 8, 1, 8, 2];
        let address = there.as_ptr() as u64;
        let (mut once, mut file) = ([0; 8], [0; 8]);
        // A seccomp filter may forbid the call.
        assert!(!read_at_once(pid, address, &mut once) || once == there);
        read_file(pid, address, &mut file).unwrap();
        assert_eq!(file, there);
        read(pid, address, &mut once).unwrap();
        assert_eq!(once, there);
        for nowhere in [0, 1 << 63, u64::MAX] {
            assert!(!read_at_once(pid, nowhere, &mut once));
            assert!(read(pid, nowhere, &mut once).is_err());
        }
    }

    #[test]
    fn numbers_of_another_world_are_known() {
        assert!(is_ours("Name:\tcat\nNSpid:\t4711\nNSpgid:\t4711\n"));
        assert!(!is_ours("NSpid:\t4711\t7\n"));
        assert!(!is_ours("Name:\tcat\n"));
    }
}
