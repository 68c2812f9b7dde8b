//! The work budget of a file.

use crate::elf::ElfError;

/// The number of steps left for a file.
///
/// Debug information can refer to one list, table or unit from everywhere, so its size does not
/// bound the work. A step is about one attribute; real files need one per few bytes.
#[derive(Debug)]
pub(super) struct Budget(u64);

/// The reason for skipping a piece of debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The data is invalid or cannot be read.
    Malformed,
    /// The budget of the file is used up.
    Exhausted,
}

impl Budget {
    /// Returns a budget for `bytes` of debug information.
    pub(super) fn of(bytes: u64) -> Budget {
        /// Size beyond which the budget does not grow.
        const LARGE: u64 = 512 << 20;
        Budget((4 << 20) + bytes.min(LARGE) * 2)
    }

    pub(super) fn spend(&mut self, steps: u64) -> Result<(), Fault> {
        self.0 = self.0.checked_sub(steps).ok_or(Fault::Exhausted)?;
        Ok(())
    }
}

impl From<gimli::Error> for Fault {
    fn from(_: gimli::Error) -> Fault {
        Fault::Malformed
    }
}

impl From<ElfError> for Fault {
    fn from(_: ElfError) -> Fault {
        Fault::Malformed
    }
}
