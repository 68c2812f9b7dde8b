//! Files that are read until the end of a profiler.
//!
//! A search for a runtime's symbols takes longer than the end may where CPU time is scarce.

use std::io;
use std::sync::Arc;

use crate::elf::ReadAt;

/// Returns `true` once nothing is to be built any more.
pub(crate) type IsOver = Arc<dyn Fn() -> bool + Send + Sync>;

/// A file whose reads fail from the end on, which ends the work that needs them.
pub(super) struct Until {
    pub(super) source: Box<dyn ReadAt>,
    pub(super) is_over: IsOver,
}

impl ReadAt for Until {
    fn size(&self) -> io::Result<u64> {
        self.source.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if (self.is_over)() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.source.read_at(offset, buffer)
    }
}
