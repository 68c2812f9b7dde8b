//! How much work one file may make.

use addr2line::gimli;

use crate::elf::ElfError;

/// Steps that are left.
///
/// Debug information can refer to the same list, table or unit from everywhere, so its size alone doesn't
/// bound the work. A step is about the reading of one attribute; real files need one for every few bytes.
#[derive(Debug)]
pub(super) struct Budget(u64);

/// Why a piece of debug information isn't used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It makes no sense, or can't be read.
    Malformed,
    /// The work for this file is used up.
    Exhausted,
}

impl Budget {
    /// Enough for `bytes` of debug information.
    pub(super) fn of(bytes: u64) -> Budget {
        /// Beyond this a file isn't given more, whatever size it claims.
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
