//! A file that holds code.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::elf::ReadAt;

/// Id of a module in a [`Profile`](crate::profile::Profile) or in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

/// A file that holds code, shared by all processes that map it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Module {
    /// Path in the mount namespace of the process that mapped it first.
    pub path: Box<str>,
    /// The GNU build id; empty if there is none.
    pub build_id: Box<[u8]>,
    /// The first mapped virtual address of its executable segment.
    pub start: u64,
    /// The first virtual address behind that.
    pub end: u64,
    /// File offset of `start`.
    pub offset: u64,
    /// Opens the file, even if its path leads to another one by now.
    pub opener: Option<Arc<dyn Opener>>,
    /// `true` if another user than root may write the file, so that its build id is no proof of its content.
    pub(crate) is_foreign: bool,
}

impl Module {
    /// Returns a module of this path; the other fields are set afterwards.
    pub fn new(path: impl Into<Box<str>>) -> Module {
        let path = path.into();
        Module {
            path,
            build_id: Box::default(),
            start: 0,
            end: 0,
            offset: 0,
            opener: None,
            is_foreign: false,
        }
    }

    /// Returns the last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Extends the range of mapped addresses.
    pub(crate) fn extend(&mut self, start: u64, end: u64, offset: u64) {
        if self.start == self.end {
            (self.start, self.end, self.offset) = (start, end, offset);
        } else {
            if start < self.start {
                (self.start, self.offset) = (start, offset);
            }
            self.end = self.end.max(end);
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("path", &self.path)
            .field("build_id", &self.build_id)
            .field("range", &(self.start..self.end))
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

/// Opens the file of a module, any number of times.
///
/// The file may be in another mount namespace, or deleted but still mapped.
pub trait Opener: Send + Sync {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// Fails if the file can no longer be opened.
    fn open(&self) -> io::Result<Box<dyn ReadAt>>;

    /// Closes what is kept open. Called once no process maps the file any more and its names were read; it may be opened again.
    fn release(&self) {}

    /// Returns the generation of the file's inode, if its file system has any: the number of an inode is used again after its
    /// file was deleted.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// Returns device and inode of the file if another user than root may write it.
    ///
    /// Anyone can give any build id to a file of their own: such a file is shared by processes that map the same inode, not
    /// by all that map a file of its build id.
    fn foreign_inode(&self) -> Option<(u64, u64)> {
        None
    }
}

impl<F> Opener for F
where
    F: Fn() -> io::Result<Box<dyn ReadAt>> + Send + Sync,
{
    fn open(&self) -> io::Result<Box<dyn ReadAt>> {
        self()
    }
}
