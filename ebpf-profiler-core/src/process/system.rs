//! What can be asked about the processes of a machine.

use std::io;
use std::sync::Arc;

use super::Opener;
use crate::elf::ReadAt;
use crate::sample::MapEvent;

/// The processes of a machine: the one that this program runs on, or one that was recorded.
pub trait System: Send {
    /// The ids of all processes that have user code.
    fn processes(&self) -> Vec<u32>;

    /// The executable mappings of a process, in ascending order.
    ///
    /// # Errors
    ///
    /// When the process is gone, or not ours to look at.
    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>>;

    /// What is known of a process besides.
    fn describe(&self, pid: u32) -> Description;

    /// How to open the file behind a mapping of a process, also when the process is gone by then.
    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener>;

    /// Fills `buffer` with the memory of a process from `address` on.
    ///
    /// # Errors
    ///
    /// When not all of it can be read.
    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Opens the perf map of a process: `/tmp/perf-PID.map` as the process sees it.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if another user than the process's or root owns it.
    fn perf_map(&self, pid: u32) -> io::Result<Box<dyn ReadAt>> {
        let _ = pid;
        Err(io::ErrorKind::NotFound.into())
    }
}

/// What a process is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The path of its executable; empty if it has none or it isn't known.
    pub executable: Box<str>,
    /// The container that it runs in; empty outside of any.
    pub container: Box<str>,
    /// Nanoseconds between boot and its creation; 0 if unknown.
    pub created: u64,
    /// Id of the parent process; 0 if unknown.
    pub parent: u32,
    /// Command line, arguments separated by spaces, at most 4,096 bytes; empty if unknown.
    pub command_line: Box<str>,
}
