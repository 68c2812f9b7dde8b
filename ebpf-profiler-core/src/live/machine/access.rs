//! Access to what belongs to other processes: with the privileges of this program, or those of a
//! [broker](super::broker).
//!
//! The kernel checks at the opening of these files who opens them, and not again at a read. So one process
//! can open what another one reads.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::broker::Client;
use super::describe;
use super::mapped_file::{Found, Mapping};
use super::{other_thread, perf_map};

/// Access to the files of other processes. Each call may wait for ever: a [helper](super::helpers)
/// has to make it.
#[derive(Clone, Debug, Default)]
pub(in crate::live) enum Access {
    /// With the privileges of this program.
    #[default]
    Own,
    /// With those of a broker as long as it runs, then of this program.
    Broker(Arc<Client>),
}

/// An object that is opened.
#[derive(Debug)]
pub(super) enum Request {
    /// A file of `/proc/PID`.
    Proc(u32, ProcFile),
    /// The path of the executable.
    Executable(u32),
    PerfMap {
        pid: u32,
        any_file_system: bool,
    },
    MappedFile(Arc<Mapping>),
}

/// Files of `/proc/PID` that need a privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcFile {
    Maps,
    Memory,
    Pagemap,
    Environment,
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub(super) enum Opened {
    File(File),
    MappedFile(Found),
    /// A path.
    Text(Box<str>),
}

impl Access {
    /// Returns `true` while there is a broker.
    pub(super) fn has_broker(&self) -> bool {
        matches!(self, Access::Broker(client) if client.is_running())
    }

    /// Opens a file of `/proc/PID` for reading. If the first thread has exited, it opens another thread's.
    pub(super) fn proc_file(&self, pid: u32, file: ProcFile) -> io::Result<File> {
        self.open(&Request::Proc(pid, file)).and_then(Opened::file)
    }

    /// Returns the path of the executable of a process.
    pub(super) fn executable(&self, pid: u32) -> io::Result<Box<str>> {
        match self.open(&Request::Executable(pid))? {
            Opened::Text(path) => Ok(path),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Opens the perf map of a process.
    pub(super) fn perf_map(&self, pid: u32, any_file_system: bool) -> io::Result<File> {
        self.open(&Request::PerfMap { pid, any_file_system }).and_then(Opened::file)
    }

    /// Opens the file of a mapping.
    pub(super) fn mapped_file(&self, mapping: Arc<Mapping>) -> io::Result<Found> {
        match self.open(&Request::MappedFile(mapping))? {
            Opened::MappedFile(found) => Ok(found),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn open(&self, request: &Request) -> io::Result<Opened> {
        match self {
            Access::Own => request.open(),
            // A file that the broker refuses may be open to everybody.
            Access::Broker(client) => client.ask(request).or_else(|error| request.open().map_err(|_| error)),
        }
    }
}

impl Request {
    /// Opens it with the privileges of this program.
    pub(super) fn open(&self) -> io::Result<Opened> {
        match self {
            Request::Proc(pid, file) => file.open(*pid).map(Opened::File),
            Request::Executable(pid) => {
                let id = other_thread::of(*pid).unwrap_or(*pid);
                describe::executable(id).map(Opened::Text)
            }
            Request::PerfMap { pid, any_file_system } => {
                perf_map::open(*pid, *any_file_system).map(Opened::File)
            }
            Request::MappedFile(mapping) => mapping.find().map(Opened::MappedFile),
        }
    }
}

impl ProcFile {
    fn open(self, pid: u32) -> io::Result<File> {
        let id = other_thread::of(pid).unwrap_or(pid);
        File::open(format!("/proc/{id}/{}", self.name()))
    }

    fn name(self) -> &'static str {
        match self {
            ProcFile::Maps => "maps",
            ProcFile::Memory => "mem",
            ProcFile::Pagemap => "pagemap",
            ProcFile::Environment => "environ",
        }
    }
}

impl Opened {
    fn file(self) -> io::Result<File> {
        match self {
            Opened::File(file) => Ok(file),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
