//! Events from the kernel: samples, and the life of processes.
//!
//! A [`Source`] returns [`Batch`]es. Decoding any bytes of a sample returns a [`TickRecord`] or
//! [`Malformed`]; all lengths are checked.

mod batch;

mod filter;

mod labels;

mod life;

mod tick;

use std::time::Duration;

use ebpf_programs::abi::reason::Counter;

use crate::process::Pids;
pub use batch::{Batch, Event};
pub use filter::KernelFilter;
pub use labels::CopiedLabels;
pub use life::{FileId, Life, LifeEvent, MapEvent};
pub use tick::{Body, Malformed, TickRecord};
pub(crate) use tick::{END_WORDS, decode_end, encode_head, split_head};

/// A stream of events: of the running kernel, or of a recording.
pub trait Source: Send {
    /// Waits up to `wait` for events and moves all of them into `batch`.
    ///
    /// Returns `false` at the end of the stream.
    ///
    /// # Errors
    ///
    /// Fails if no more events can be read.
    fn next(&mut self, wait: Duration, batch: &mut Batch) -> Result<bool, SourceError>;

    /// Returns the current counters of the kernel side.
    fn counts(&self) -> Counts;

    /// Returns the costs of all kinds of samples since the start, by their numbers; empty without a
    /// budget.
    fn costs(&self) -> Vec<KindCost> {
        Vec::new()
    }

    /// Sets the period of a kind of samples, in its unit; 0 samples every event.
    ///
    /// # Errors
    ///
    /// Fails if the period can't be changed; the default implementation always does.
    fn set_kind_period(&mut self, kind: usize, period: u64) -> Result<(), SourceError> {
        let _ = (kind, period);
        Err(SourceError::Io(std::io::ErrorKind::Unsupported.into()))
    }

    /// Stops sampling, without a wait; samples taken before still arrive.
    fn stop(&mut self) {}

    /// Takes out of the kernel what samples, after [`stop`](Source::stop). Where CPU time is scarce, the
    /// kernel can take seconds for it.
    fn detach(&mut self) {}

    /// Sets the processes that are wanted, with their descendants from now on. Samples of others
    /// may still come.
    fn set_pids(&mut self, pids: &Pids) {
        let _ = pids;
    }

    /// Sets the filter. Sampling must be paused.
    ///
    /// # Errors
    ///
    /// Fails if the filter can't be applied; the former one applies then. The default
    /// implementation always does.
    fn set_filter(&mut self, filter: &KernelFilter) -> Result<(), SourceError> {
        let _ = filter;
        Err(SourceError::Io(std::io::ErrorKind::Unsupported.into()))
    }

    /// Sets the time between two samples of a CPU; `None` pauses sampling. Samples taken before
    /// still come.
    ///
    /// # Errors
    ///
    /// Fails if the clocks can't be changed; the default implementation always does.
    fn set_period(&mut self, period: Option<Duration>) -> Result<(), SourceError> {
        let _ = period;
        Err(SourceError::Io(std::io::ErrorKind::Unsupported.into()))
    }
}

/// Counters of the kernel side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Values in the order of [`Counter::ALL`].
    pub counters: Vec<u64>,
    /// Number of runs of the sampling program, if the kernel keeps statistics
    /// (`kernel.bpf_stats_enabled`).
    pub runs: u64,
    /// Total time of these runs.
    pub run_time: Duration,
}

impl Counts {
    /// Counters of samples that were lost in the kernel.
    pub(crate) const LOSSES: [Counter; 9] = [
        Counter::RingFull,
        Counter::Nested,
        Counter::Untracked,
        Counter::Invalid,
        Counter::NoWalk,
        Counter::Skipped,
        Counter::Unheld,
        Counter::UnsentEnds,
        Counter::NewCpu,
    ];

    /// Returns the numbers of samples that were lost in the kernel, in the order of
    /// [`LOSSES`](Counts::LOSSES).
    pub(crate) fn losses(&self) -> [u64; Counts::LOSSES.len()] {
        Counts::LOSSES.map(|counter| self.get(counter))
    }

    /// Returns one counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize).copied().unwrap_or(0)
    }
}

/// Cost of the samples of one kind in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindCost {
    /// Events that were sampled, and those whose sample a filter dropped.
    pub samples: u64,
    /// Events that were skipped to keep the budget.
    pub skipped: u64,
    /// Time of the programs for samples.
    pub time: Duration,
    /// Time of the programs for all other events, estimated from one of 64.
    pub idle_time: Duration,
    /// Sum of the values of samples.
    pub value: u64,
}

impl KindCost {
    /// Returns the difference to an earlier cost.
    #[cfg(feature = "live")]
    pub(crate) fn since(&self, before: &KindCost) -> KindCost {
        KindCost {
            samples: self.samples.saturating_sub(before.samples),
            skipped: self.skipped.saturating_sub(before.skipped),
            time: self.time.saturating_sub(before.time),
            idle_time: self.idle_time.saturating_sub(before.idle_time),
            value: self.value.saturating_sub(before.value),
        }
    }
}

/// Error of a [`Source`] or of a replay: events cannot be read, or a file is no valid recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum SourceError {
    /// A system call failed.
    Io(std::io::Error),
    /// The file is no recording, is damaged, or is from another version or architecture.
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
