//! The life of processes: what happens to them between two ticks.

use std::ops::Range;
use std::sync::Arc;

/// Something that happened to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeEvent {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The process that it happened to.
    pub pid: u32,
    /// What happened.
    pub life: Life,
}

/// What can happen to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Life {
    /// It was made by `parent`, whose mappings it has.
    Forked {
        /// The process that made it.
        parent: u32,
    },
    /// It became another program; its mappings are gone.
    Executed,
    /// It has a new executable mapping.
    Mapped(MapEvent),
    /// It ended.
    Exited,
    /// Events of any process were lost; what is known of mappings may be old.
    Lost {
        /// How many.
        count: u64,
    },
}

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MapEvent {
    /// The first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file, as far as the kernel told it.
    pub file: FileId,
    /// What the kernel calls it: a path in the process's own view, `//anon`, `[vdso]`.
    pub path: Arc<str>,
}

impl MapEvent {
    /// Creates a mapping of `addresses`, which begins at `offset` in `file`.
    pub fn new(addresses: Range<u64>, offset: u64, file: FileId, path: impl Into<Arc<str>>) -> MapEvent {
        MapEvent { start: addresses.start, end: addresses.end, offset, file, path: path.into() }
    }
}

/// Which file is mapped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileId {
    /// None: anonymous memory.
    Anonymous,
    /// The file with this number on this device.
    Inode {
        /// Major and minor number of the device.
        device: (u32, u32),
        /// The number.
        inode: u64,
    },
    /// The file with this GNU build id.
    BuildId(Box<[u8]>),
}

impl FileId {
    /// What the kernel says of a mapping: its path, and the device and number of its file.
    ///
    /// The pages that the kernel lends to every process have no file; they are one all the same.
    pub fn of(path: &str, device: (u32, u32), inode: u64) -> FileId {
        match (path, inode) {
            ("[vdso]", _) => FileId::VDSO,
            (_, 0) => FileId::Anonymous,
            _ => FileId::Inode { device, inode },
        }
    }

    /// The code that the kernel lends to every process.
    pub const VDSO: FileId = FileId::Inode { device: (0, 0), inode: 1 };
}
