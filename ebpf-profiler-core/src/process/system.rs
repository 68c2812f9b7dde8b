//! Access to the processes of a machine.

use std::io;
use std::sync::Arc;

use super::Opener;
use crate::elf::ReadAt;
use crate::sample::MapEvent;

/// The processes of the running machine, or of a recorded one.
pub trait System: Send {
    /// Returns the ids of all processes, those that use the most CPU time first if that is known.
    fn processes(&self) -> Vec<u32>;

    /// Returns the executable mappings of a process, in ascending order.
    ///
    /// # Errors
    ///
    /// Fails if the process is gone or access is denied, with `FileTooLarge` if it has too many
    /// mappings to read.
    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>>;

    /// Returns the description of a process.
    fn describe(&self, pid: u32) -> Description;

    /// Completes a description that was read before, without what is in the memory of the process,
    /// and takes it as the answer of [`describe`](System::describe).
    fn complete(&self, pid: u32, description: Description) -> Description {
        let _ = pid;
        description
    }

    /// Returns an opener of the file of a mapping, which works after the exit of the process if
    /// possible.
    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener>;

    /// Reads memory of a process at `address` into `buffer`.
    ///
    /// # Errors
    ///
    /// Fails unless all of it can be read.
    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Returns the addresses of mappings that may be the context which a process has published: those
    /// named `OTEL_CTX`, at most four.
    fn contexts(&self, pid: u32) -> Vec<u64> {
        let _ = pid;
        Vec::new()
    }

    /// Returns the number of calls that did not return in time: reads of memory and openings of
    /// files whose provider does not answer.
    fn abandoned(&self) -> u64 {
        0
    }

    /// Closes what is kept open of a process, which executes another program or ends.
    fn forget(&self, pid: u32) {
        let _ = pid;
    }

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

/// Facts about a process beside its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// Path of the executable; empty if unknown.
    pub executable: Box<str>,
    /// Id or name of the container; empty outside of containers.
    pub container: Box<str>,
    /// Creation time in nanoseconds since boot; 0 if unknown.
    pub created: u64,
    /// Id of the parent process; 0 if unknown.
    pub parent: u32,
    /// Command line, arguments separated by spaces, at most 1,024 bytes; empty if unknown or not
    /// requested.
    pub command_line: Box<str>,
    /// Path of the control group; empty if unknown.
    pub cgroup: Box<str>,
    /// Unique id of the Kubernetes pod; empty outside of pods.
    pub pod: Box<str>,
    /// Id of the user; `None` if unknown.
    pub user: Option<u32>,
    /// Id of the process in its own namespace; 0 if unknown.
    pub namespace_pid: u32,
    /// Environment variables that were requested and are set.
    pub environment: Vec<(Box<str>, Box<str>)>,
}
