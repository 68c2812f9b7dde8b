//! The path from a thread to its innermost frame.

use ebpf_programs::abi::interpreter::{HOPS, Path, from};

use super::InvalidWalker;

/// The path from a thread to the innermost frame of its list: `[[[base + offsets[0]] + offsets[1]] + …]`.
///
/// Each offset is one dereference; the last result is the address of the frame, 0 for a thread without frames. A path has
/// at most eight offsets, the address or head included.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::language::FramePath;
///
/// // A thread-local variable holds the thread state, whose word at 24 is the innermost frame.
/// let threads = FramePath::from_thread_pointer(&[-16, 24]);
/// // A program with one thread: a global variable holds the innermost frame.
/// let global = FramePath::from_address(0x55d0_1000, &[]);
/// assert_ne!(threads, global);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePath {
    pub(super) path: Path,
    /// Number of offsets that were given, which may exceed [`HOPS`].
    pub(super) count: usize,
}

impl FramePath {
    /// Path from the thread pointer (the base of `fs` on x86_64, `tpidr_el0` on arm64).
    pub fn from_thread_pointer(offsets: &[i64]) -> FramePath {
        FramePath::new(from::THREAD, offsets)
    }

    /// Path from the stack pointer of the loop's frame on the native stack. It is read again for each such frame.
    #[doc(hidden)]
    pub fn from_stack_pointer(offsets: &[i64]) -> FramePath {
        FramePath::new(from::STACK, offsets)
    }

    /// Path from the word at an absolute address of the process, for data that all threads share.
    pub fn from_address(address: u64, offsets: &[i64]) -> FramePath {
        FramePath::after(from::ZERO, address, offsets)
    }

    /// Path from the entry of the thread in a list of threads, whose first entry is at `[head]`.
    ///
    /// An entry holds the address of the next one at offset `next` and the thread pointer of its thread at offset
    /// `thread`. At most 256 entries are searched.
    pub fn from_thread_list(head: u64, next: u32, thread: u32, offsets: &[i64]) -> FramePath {
        let mut path = FramePath::after(from::LIST, head, offsets);
        (path.path.next, path.path.thread) = (next, thread);
        path
    }

    /// Path from the entry in use, at `[head]`, if it is that of the thread; else from the entry at the end of `fallback`,
    /// a path from the thread pointer.
    ///
    /// An entry holds the thread pointer of its thread at offset `thread`. With an empty `fallback` the entry is searched
    /// for in the [lists of all interpreters](super::ListWalker::thread_lists).
    pub fn from_entry_in_use(head: u64, thread: u32, fallback: &[i64], offsets: &[i64]) -> FramePath {
        let mut path = FramePath::after(from::CURRENT, head, fallback);
        (path.path.next, path.path.thread) = (fallback.len() as u32, thread);
        offsets.iter().for_each(|&offset| path.push(offset));
        path
    }

    pub(super) fn new(from: u32, offsets: &[i64]) -> FramePath {
        let mut path = FramePath { path: Path { from, ..Path::default() }, count: 0 };
        offsets.iter().for_each(|&offset| path.push(offset));
        path
    }

    fn after(from: u32, address: u64, offsets: &[i64]) -> FramePath {
        let mut path = FramePath::new(from, &[address as i64]);
        offsets.iter().for_each(|&offset| path.push(offset));
        path
    }

    pub(super) fn push(&mut self, offset: i64) {
        if let Some(slot) = self.path.offsets.get_mut(self.count) {
            *slot = offset;
            self.path.hops += 1;
        }
        self.count = self.count.saturating_add(1);
    }

    pub(super) fn check(&self) -> Result<Path, InvalidWalker> {
        let Path { from, hops, next, .. } = self.path;
        let invalid = |reason| InvalidWalker::of("offsets of the path", self.count as u64, reason);
        if self.count > HOPS {
            return Err(invalid("more than 8"));
        }
        if hops == 0 {
            return Err(invalid("at least one is needed"));
        }
        match from {
            from::THREAD | from::ZERO | from::LIST | from::STACK => Ok(self.path),
            from::CURRENT if next < hops => Ok(self.path),
            _ => Err(InvalidWalker::of("start of the path", from.into(), "unknown")),
        }
    }
}
