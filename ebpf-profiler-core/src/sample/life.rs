//! The life of processes: forks, execs, mappings and exits.

use std::ops::Range;
use std::sync::Arc;

/// An event in the life of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeEvent {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The process.
    pub pid: u32,
    /// The kind of event.
    pub life: Life,
}

/// Kinds of life events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Life {
    /// Created by `parent`, whose mappings it has.
    Forked {
        /// The parent process.
        parent: u32,
    },
    /// Executed another program; its former mappings are gone.
    Executed,
    /// Created an executable mapping.
    Mapped(MapEvent),
    /// The first thread exited.
    Exited,
    /// Events of any process were lost; known mappings may be outdated.
    Lost {
        /// Number of lost events; 0 if unknown.
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
    /// File offset of the first byte.
    pub offset: u64,
    /// Identity of the file.
    pub file: FileId,
    /// Path in the mount namespace of the process, or a name of the kernel: `//anon`, `[vdso]`.
    pub path: Arc<str>,
}

impl MapEvent {
    /// Creates a mapping of `addresses`, which begins at `offset` in `file`.
    pub fn new(addresses: Range<u64>, offset: u64, file: FileId, path: impl Into<Arc<str>>) -> MapEvent {
        MapEvent { start: addresses.start, end: addresses.end, offset, file, path: path.into() }
    }
}

/// Identity of a mapped file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileId {
    /// Anonymous memory, without a file.
    Anonymous,
    /// A file by device and inode.
    Inode {
        /// Major and minor number of the device.
        device: (u32, u32),
        /// The inode number.
        inode: u64,
    },
    /// A file by device, inode and generation of the inode. After a file is deleted, another one
    /// can have its inode number, with another generation.
    InodeGeneration {
        /// Major and minor number of the device.
        device: (u32, u32),
        /// The inode number.
        inode: u64,
        /// The generation, never 0.
        generation: u64,
    },
    /// A file by its GNU build id.
    BuildId(Box<[u8]>),
}

impl FileId {
    /// Returns the identity for the path, device and inode that the kernel shows for a mapping.
    ///
    /// The vDSO has no file, but a fixed identity.
    pub fn of(path: &str, device: (u32, u32), inode: u64) -> FileId {
        match (path, inode) {
            ("[vdso]", _) => FileId::VDSO,
            (_, 0) => FileId::Anonymous,
            _ => FileId::Inode { device, inode },
        }
    }

    /// Returns the identity with the generation of the inode, if it is that of an inode and the
    /// generation is known, not 0.
    #[must_use]
    pub fn with_generation(self, generation: u64) -> FileId {
        match self {
            FileId::Inode { device, inode } if generation != 0 && self != FileId::VDSO => {
                FileId::InodeGeneration { device, inode, generation }
            }
            _ => self,
        }
    }

    /// Returns the identity without a generation.
    #[must_use]
    pub fn without_generation(self) -> FileId {
        match self {
            FileId::InodeGeneration { device, inode, .. } => FileId::Inode { device, inode },
            _ => self,
        }
    }

    /// The vDSO.
    pub const VDSO: FileId = FileId::Inode { device: (0, 0), inode: 1 };
}
