//! What goes down to the kernel side: unwind tables and mappings, in the
//! [arena](ebpf_programs::abi::arena).

mod allocator;

mod memory;

use std::ops::Range;

use ebpf_programs::abi::mapping::Process;

pub use allocator::Allocator;
pub use memory::MemoryTables;

/// The memory that the walkers look tables up in, and the list of processes that they know.
///
/// In a live profiler it is shared with the kernel; a replay keeps it to itself.
pub trait Tables: Send {
    /// Copies `bytes` to byte `at` of the arena, a multiple of eight, making room as needed.
    ///
    /// Eight bytes at a time are written in one go: a walk sees all of them or none.
    ///
    /// # Errors
    ///
    /// When there is no memory for it.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Full>;

    /// Makes walks forget what they remember of tables, as one was just written, perhaps where another lay.
    ///
    /// # Errors
    ///
    /// When they can't be told.
    fn renew(&mut self) -> Result<(), Full> {
        Ok(())
    }

    /// The words of the arena from number `word` on, as many as there are in one piece, which ends where a block ends; `None` in
    /// blocks where nothing was ever written.
    fn piece(&self, word: u32) -> Option<&[u32]>;

    /// Says that nothing lies in these bytes of the arena any more, so that their memory may be given back.
    fn unused(&mut self, _bytes: Range<u64>) {}

    /// Lets the kernel side know a process, or know it anew.
    ///
    /// # Errors
    ///
    /// When too many are known already.
    fn set_process(&mut self, pid: u32, process: &Process) -> Result<(), Full>;

    /// Lets the kernel side know a process anew, if it knows it: the child of a fork, which it took for its parent as
    /// that was then.
    fn replace_process(&mut self, pid: u32, process: &Process);

    /// Lets the kernel side forget a process.
    fn remove_process(&mut self, pid: u32);
}

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;
