//! A file that holds code.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::elf::ReadAt;

/// A file in a [`Profile`](crate::profile::Profile) or in the tables, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

/// A file that holds code: one, however many processes map it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Module {
    /// Where the process that mapped it first saw it.
    pub path: Box<str>,
    /// The GNU build id; empty where it has none.
    pub build_id: Box<[u8]>,
    /// The first virtual address of its executable segment that was seen mapped.
    pub start: u64,
    /// The first virtual address behind that.
    pub end: u64,
    /// Where those addresses begin in the file.
    pub offset: u64,
    /// Opens the file, also where its path leads elsewhere by now.
    pub opener: Option<Arc<dyn Opener>>,
}

impl Module {
    /// A module of this path; the other fields are set afterwards.
    pub fn new(path: impl Into<Box<str>>) -> Module {
        let path = path.into();
        Module { path, build_id: Box::default(), start: 0, end: 0, offset: 0, opener: None }
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Makes the range of its mapped addresses cover this one too.
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

/// Opens a module's file again and again.
///
/// Behind it may be a path, a file of another mount namespace, or one that is deleted but still mapped.
pub trait Opener: Send + Sync {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// When it is gone for good.
    fn open(&self) -> io::Result<Box<dyn ReadAt>>;
}

impl<F> Opener for F
where
    F: Fn() -> io::Result<Box<dyn ReadAt>> + Send + Sync,
{
    fn open(&self) -> io::Result<Box<dyn ReadAt>> {
        self()
    }
}
