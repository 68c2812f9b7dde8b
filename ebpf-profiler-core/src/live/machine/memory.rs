//! The memory of other processes.
//!
//! A page that is not present may come from a program that never answers: a server of files (FUSE,
//! NFS), or the owner of a userfaultfd. The thread that reads it waits for ever, and no signal ends
//! that. So a page is read here only if it is present; others are read by a
//! [helper](super::helpers), which can be abandoned.
//!
//! ```text
//!   present within the last 0.1 ms ──────────────────► read
//!   else /proc/PID/pagemap: 64 pages ──► present ───► read
//!                                    └─► else ──────► read by a helper, unless another program serves the file
//! ```
//!
//! With a [broker](super::broker), `/proc/PID/mem` stays open and is read instead of the system call
//! `process_vm_readv`, for which this program has no privilege.

#![expect(unsafe_code, reason = "system calls that the standard library does not have")]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::access::{Access, ProcFile};
use super::helpers::Helpers;
use super::kept::KeptFiles;
use super::served::is_served;

/// The memory of all processes.
#[derive(Clone, Debug)]
pub(super) struct ProcessMemory {
    access: Access,
    helpers: Helpers,
    any_file_system: bool,
    present: Arc<Mutex<PresentPages>>,
    /// Open `/proc/PID/mem` of a broker.
    memories: Arc<Mutex<KeptFiles>>,
}

impl ProcessMemory {
    pub(super) fn new(access: Access, helpers: Helpers, any_file_system: bool) -> ProcessMemory {
        let memories = Arc::new(Mutex::new(KeptFiles::new(MAX_MEMORIES)));
        ProcessMemory { access, helpers, any_file_system, present: Arc::default(), memories }
    }

    /// Fills `buffer` with the memory of a process from `address`.
    pub(super) fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.are_present(pid, address, buffer.len() as u64) {
            let open = || self.open(pid, ProcFile::Memory);
            return self.read_now(pid, address, buffer, open);
        }
        let (memory, len) = (self.clone(), buffer.len());
        let read = move || {
            let ProcessMemory { access, any_file_system, .. } = &memory;
            if !any_file_system && is_served(access, pid, address) {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let mut bytes = vec![0; len];
            let open = || access.proc_file(pid, ProcFile::Memory);
            memory.read_now(pid, address, &mut bytes, open).map(|()| bytes)
        };
        buffer.copy_from_slice(&self.helpers.call(pid, read)?);
        Ok(())
    }

    /// Closes what is open of a process that executes or ends.
    pub(super) fn forget(&self, pid: u32) {
        lock(&self.present).pagemaps.remove(pid);
        lock(&self.memories).remove(pid);
    }

    fn are_present(&self, pid: u32, address: u64, len: u64) -> bool {
        let open = || self.open(pid, ProcFile::Pagemap);
        lock(&self.present).are(pid, address, len, &open)
    }

    /// Opens a file of `/proc/PID`. A broker is waited for no longer than a helper is.
    fn open(&self, pid: u32, file: ProcFile) -> io::Result<File> {
        match self.access.clone() {
            Access::Own => self.access.proc_file(pid, file),
            access => self.helpers.call(pid, move || access.proc_file(pid, file)),
        }
    }

    /// Reads memory in this thread. With a broker, `open` opens the memory of the process.
    fn read_now(
        &self,
        pid: u32,
        address: u64,
        buffer: &mut [u8],
        open: impl Fn() -> io::Result<File>,
    ) -> io::Result<()> {
        if !self.access.has_broker() {
            return read(pid, address, buffer);
        }
        let kept = lock(&self.memories).get(pid);
        if let Some(file) = kept {
            let read = file.read_exact_at(buffer, address);
            if !read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
                return read;
            }
            // Empty after an exec or the end of the process.
            lock(&self.memories).remove(pid);
        }
        let file = open()?;
        let file = lock(&self.memories).insert(pid, file);
        file.read_exact_at(buffer, address)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept is valid at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pages of a window.
const PAGES: u64 = 64;

/// Bytes of a page, as a power of two.
const PAGE_SHIFT: u32 = 12;

/// Time for which a page counts as present, in nanoseconds: a process can replace it meanwhile. The
/// reads for one name take 20 to 100 µs.
const VALID: u64 = 100_000;

/// Windows that are known at the same time.
const WINDOWS: usize = 1 << 10;

/// Open pagemaps.
const MAX_PAGEMAPS: usize = 8;

/// Open memories of processes.
const MAX_MEMORIES: usize = 64;

/// End of the addresses of user memory.
const USER_END: u64 = 1 << 47;

/// The pages that were present a short time ago.
#[derive(Debug)]
struct PresentPages {
    windows: Box<[Window]>,
    pagemaps: KeptFiles,
}

/// 64 pages of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    pid: u32,
    /// Number of its first page divided by 64.
    index: u64,
    /// Time when it was read; 0 if it was not.
    read: u64,
    /// One bit for each page that was present.
    present: u64,
}

/// Opens a pagemap.
type Open<'a> = dyn Fn() -> io::Result<File> + 'a;

impl Default for PresentPages {
    fn default() -> PresentPages {
        let windows = vec![Window::default(); WINDOWS].into();
        PresentPages { windows, pagemaps: KeptFiles::new(MAX_PAGEMAPS) }
    }
}

impl PresentPages {
    /// Returns `true` if all pages of a range are present, or if they are no user memory, so that
    /// reading them waits for nobody. `open` opens the pagemap of the process.
    fn are(&mut self, pid: u32, address: u64, len: u64, open: &Open<'_>) -> bool {
        let Some(last) = address.checked_add(len.saturating_sub(1)).filter(|&last| last < USER_END) else {
            return true;
        };
        let now = now();
        let mut page = address >> PAGE_SHIFT;
        while page <= last >> PAGE_SHIFT {
            let index = page / PAGES;
            let end = ((index + 1) * PAGES - 1).min(last >> PAGE_SHIFT);
            let wanted = (u64::MAX >> (PAGES - 1 - (end - page))) << (page % PAGES);
            if !self.has(pid, index, wanted, now, open) {
                return false;
            }
            page = end + 1;
        }
        true
    }

    /// Returns `true` if the `wanted` pages of a window are present.
    fn has(&mut self, pid: u32, index: u64, wanted: u64, now: u64, open: &Open<'_>) -> bool {
        let slot = (index.wrapping_mul(31).wrapping_add(u64::from(pid).wrapping_mul(0x9e37_79b9))) as usize
            % WINDOWS;
        let Window { pid: owner, index: known, read, present } = self.windows[slot];
        if (owner, known) == (pid, index) && now.wrapping_sub(read) < VALID && present & wanted == wanted {
            return true;
        }
        let present = self.read(pid, index, open).unwrap_or(0);
        self.windows[slot] = Window { pid, index, read: now, present };
        present & wanted == wanted
    }

    /// Reads the present pages of a window.
    fn read(&mut self, pid: u32, index: u64, open: &Open<'_>) -> Option<u64> {
        if let Some(pagemap) = self.pagemaps.get(pid) {
            if let Some(present) = present_pages(&pagemap, index) {
                return Some(present);
            }
            // Empty after an exec or the end of the process.
            self.pagemaps.remove(pid);
        }
        present_pages(&self.pagemaps.insert(pid, open().ok()?), index)
    }
}

/// Reads which pages of a window are present, one bit each.
fn present_pages(pagemap: &File, index: u64) -> Option<u64> {
    const ENTRY: usize = 8;
    let mut entries = [0; PAGES as usize * ENTRY];
    let len = pagemap.read_at(&mut entries, index * PAGES * ENTRY as u64).ok().filter(|&len| len > 0)?;
    let is_present = |entry: &[u8]| entry.last().is_some_and(|byte| byte & 0x80 != 0);
    let bits = entries[..len].chunks_exact(ENTRY).zip(0..);
    Some(bits.fold(0, |bits, (entry, page)| bits | u64::from(is_present(entry)) << page))
}

/// Returns the time in nanoseconds.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time` alone.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Fills `buffer` with the memory of a process from `address`.
///
/// One system call, `process_vm_readv`. If that fails, `/proc/PID/mem`, which takes three but also
/// reads memory that is executable and not readable.
fn read(pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    static AT_ONCE: OnceLock<bool> = OnceLock::new();
    let may = AT_ONCE.get_or_init(|| fs::read_to_string("/proc/self/status").is_ok_and(|it| is_ours(&it)));
    if *may && read_at_once(pid, address, buffer) {
        return Ok(());
    }
    let read = read_file(pid, address, buffer);
    read.or_else(|error| match super::other_thread::of(pid) {
        Some(thread) => read_file(thread, address, buffer),
        None => Err(error),
    })
}

/// Returns `true` if `/proc` has the process ids that system calls use. A `/proc` of another
/// namespace, as in some containers, has others, and a system call would read another process.
pub(in crate::live) fn is_ours(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_ascii_whitespace().count() == 1)
}

/// Reads by system call. Returns `true` if all of `buffer` was filled.
fn read_at_once(pid: u32, address: u64, buffer: &mut [u8]) -> bool {
    let here = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: the kernel writes to `here`, which is all of a buffer that is borrowed for the call.
    // `there` belongs to the other process, and the kernel checks it.
    let read = unsafe { libc::process_vm_readv(pid as i32, &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(read) == Ok(buffer.len())
}

fn read_file(pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    File::open(format!("/proc/{pid}/mem"))?.read_exact_at(buffer, address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> ProcessMemory {
        ProcessMemory::new(Access::Own, Helpers::default(), false)
    }

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
    fn present_pages_are_found_in_all_windows_of_a_range() {
        let (memory, pid) = (memory(), std::process::id());
        let are = |address, len| memory.are_present(pid, address, len);
        let there = vec![1_u8; 1 << 20];
        let start = there.as_ptr() as u64;
        assert!(are(start, there.len() as u64));
        assert!(are(start + 5000, 1) && are(start, 0));
        assert!(!are(0, 1));
        // The kernel refuses these at once.
        assert!(are(u64::MAX, 1) && are(1 << 63, 8) && are(USER_END - 1, 8));
    }

    #[test]
    fn absent_pages_are_read_by_a_helper() {
        let memory = memory();
        let file = File::open("/proc/self/exe").unwrap();
        let (pid, mut bytes) = (std::process::id(), [0; 16]);
        let none = std::ptr::null_mut();
        // SAFETY: a new mapping, which nobody else knows.
        let mapped = unsafe {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            libc::mmap(none, 1 << 16, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0)
        };
        assert!(!memory.are_present(pid, mapped as u64, 16));
        memory.read(pid, mapped as u64, &mut bytes).unwrap();
        assert_eq!(bytes[..4], *b"\x7fELF");
        assert!(memory.are_present(pid, mapped as u64, 16));
        assert!(memory.read(pid, 0x1000, &mut bytes).is_err());
        // SAFETY: nothing refers to it.
        unsafe { libc::munmap(mapped, 1 << 16) };
    }

    #[test]
    #[ignore = "measures"]
    fn cost_of_reads() {
        let memory = memory();
        let there = vec![1_u8; 64 << 20];
        let (pid, base) = (std::process::id(), there.as_ptr() as u64);
        // A name takes some 30 reads in five places.
        let addresses = |name: u64| {
            (0..30).map(move |number| base + (name * 7919 + number % 5 * 104_729) % (63 << 20) + number)
        };
        let nanoseconds = |mut read: Box<dyn FnMut(u64) + '_>| {
            let begun = std::time::Instant::now();
            (0..10_000).flat_map(addresses).for_each(&mut read);
            begun.elapsed().as_nanos() / 300_000
        };
        let mut bytes = [0; 8];
        for _ in 0..3 {
            let direct = nanoseconds(Box::new(|at| super::read(pid, at, &mut [0; 8]).unwrap()));
            let checked = nanoseconds(Box::new(|at| memory.read(pid, at, &mut bytes).unwrap()));
            eprintln!("{direct} ns a read, {checked} ns with the check");
        }
    }

    #[test]
    fn numbers_of_another_world_are_known() {
        assert!(is_ours("Name:\tcat\nNSpid:\t4711\nNSpgid:\t4711\n"));
        assert!(!is_ours("NSpid:\t4711\t7\n"));
        assert!(!is_ours("Name:\tcat\n"));
    }
}
