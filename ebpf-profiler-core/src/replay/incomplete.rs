//! Recordings that end early.

use std::fmt;

/// Reason why a recording ends before the profiler did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incomplete {
    /// The recorder ended it: the disk fell behind, or a record was too large.
    Ended,
    /// The file is truncated: the program was killed, or the disk was full.
    Truncated {
        /// Bytes up to the end of the last whole record, which are replayed.
        whole: u64,
        /// Bytes of a partial record behind it.
        partial: u64,
    },
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incomplete::Ended => f.write_str("the recorder ended it before the profiler did"),
            Incomplete::Truncated { whole, partial } => write!(
                f,
                "it is truncated after {whole} bytes of whole records ({partial} bytes of a partial one); \
                 what was recorded later is missing"
            ),
        }
    }
}
