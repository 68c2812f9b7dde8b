//! State for the kernel side: unwind tables and mappings, in the
//! [arena](ebpf_programs::abi::arena).

mod allocator;

mod memory;

use std::ops::Range;

use ebpf_programs::abi::mapping::Process;

pub use allocator::Allocator;
pub use memory::MemoryTables;

/// The memory in which walkers find tables, and the map of published processes.
///
/// In a live profiler it is shared with the kernel; in a replay it is private.
pub trait Tables: Send {
    /// Copies `bytes` to byte `at` of the arena, a multiple of eight, and allocates memory as
    /// needed.
    ///
    /// Each eight bytes are written atomically.
    ///
    /// # Errors
    ///
    /// Fails if there is no memory.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Full>;

    /// Increments the table generation, which invalidates cached rules: a table was written,
    /// perhaps in place of another.
    ///
    /// # Errors
    ///
    /// Fails if the generation cannot be written.
    fn renew(&mut self) -> Result<(), Full> {
        Ok(())
    }

    /// Returns the words of the arena from number `word` to the end of its block or further; `None`
    /// in blocks that were never written.
    fn piece(&self, word: u32) -> Option<&[u32]>;

    /// Frees the memory of unused bytes of the arena.
    fn unused(&mut self, _bytes: Range<u64>) {}

    /// Publishes a process, or replaces its published state.
    ///
    /// # Errors
    ///
    /// Fails if the map is full.
    fn set_process(&mut self, pid: u32, process: &Process) -> Result<(), Full>;

    /// Replaces the state of a process if it is published: of the child of a fork, which has the
    /// state of its parent at that moment.
    fn replace_process(&mut self, pid: u32, process: &Process);

    /// Withdraws a process.
    fn remove_process(&mut self, pid: u32);

    /// Requests walkers of runtimes, a bit for each
    /// [number](ebpf_programs::abi::interpreter::walker): the kernel side has only those that
    /// were requested.
    fn need_walkers(&mut self, walkers: u32) {
        let _ = walkers;
    }
}

/// Error: no room in the arena or in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;
