//! What comes out of the kernel: ticks through the ring, and the life of processes.
//!
//! A [`Source`] gives [`Batch`]es. Whatever the bytes of a tick say, decoding ends in a [`TickRecord`] or in
//! [`Malformed`]; nothing here trusts a length.

mod batch;

mod life;

mod tick;

use std::time::Duration;

use ebpf_programs::abi::reason::Counter;

pub use batch::{Batch, Event};
pub use life::{FileId, Life, LifeEvent, MapEvent};
pub use tick::{Body, Malformed, TickRecord};
pub(crate) use tick::{decode_head, encode_head};

/// Where events come from: the running kernel, or a recording of one.
pub trait Source: Send {
    /// Waits up to `wait` for something to happen and moves all that is there into `batch`.
    ///
    /// Returns false when nothing will ever come any more.
    ///
    /// # Errors
    ///
    /// When the source is broken for good.
    fn next(&mut self, wait: Duration, batch: &mut Batch) -> Result<bool, SourceError>;

    /// What the kernel side has counted up to now.
    fn counts(&self) -> Counts;

    /// Lets no more ticks be taken; those that were taken still come.
    fn stop(&mut self) {}

    /// Sets the time between two samples of a CPU; `None` pauses sampling. Samples taken before still come.
    ///
    /// # Errors
    ///
    /// Fails if the clocks can't be changed; the default implementation always does.
    fn set_period(&mut self, period: Option<Duration>) -> Result<(), SourceError> {
        let _ = period;
        Err(SourceError::Io(std::io::ErrorKind::Unsupported.into()))
    }
}

/// What the kernel side has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// In the order of [`Counter::ALL`].
    pub counters: Vec<u64>,
    /// How often the kernel ran the sampling program, where it keeps statistics (`kernel.bpf_stats_enabled`).
    pub runs: u64,
    /// How long that took in all.
    pub run_time: Duration,
}

impl Counts {
    /// One counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize).copied().unwrap_or(0)
    }
}

/// Why no more events can come.
#[derive(Debug)]
#[non_exhaustive]
pub enum SourceError {
    /// The system said no.
    Io(std::io::Error),
    /// A recording isn't one, or is of another version.
    Format(&'static str),
}

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SourceError::Io(error) => write!(f, "cannot read events: {error}"),
            SourceError::Format(what) => write!(f, "not a recording that can be replayed: {what}"),
        }
    }
}

impl std::error::Error for SourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SourceError::Io(error) => Some(error),
            SourceError::Format(_) => None,
        }
    }
}

impl From<std::io::Error> for SourceError {
    fn from(error: std::io::Error) -> Self {
        SourceError::Io(error)
    }
}
