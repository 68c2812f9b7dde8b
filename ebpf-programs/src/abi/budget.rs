//! Periods and costs of kinds of samples, by which a profiler keeps its budget.
//!
//! ```text
//!   event of value v, period T     sampled with probability min(1, v / T), as value max(v, T)
//! ```
//!
//! So a value is v on average, whatever the period. Events of large values, which decide a total, are all sampled. One word has
//! the period, so that probability and value change at the same moment.

/// Cost of the samples of one kind on one CPU. The value of the map `COSTS` has one for each kind. Written by the kernel side.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Events that were sampled.
    pub samples: u64,
    /// Events that were skipped because of the period.
    pub skipped: u64,
    /// Time of the programs for samples, in nanoseconds.
    pub time: u64,
    /// Time of the programs for all other events, in nanoseconds: one of [`TIMED`] is measured.
    pub idle: u64,
    /// Sum of the values of samples.
    pub value: u64,
}

/// Words of eight bytes in a [`Cost`].
pub const COST_WORDS: usize = size_of::<Cost>() / 8;

/// Maximum number of kinds with a period.
pub const MAX_KINDS: usize = 64;

/// Longest period.
pub const MAX_PERIOD: u64 = 1 << 46;

/// Number of events without a sample of which the time of one is measured; a power of two.
pub const TIMED: u64 = 64;

const _: () = assert!(size_of::<Cost>() == 40);
