//! Counters and resource usage of a profiler.

use std::time::Duration;

use super::enrichment::EnrichmentStats;
use crate::live::machine::broker::BrokerStats;
use crate::live::machine::reservation::ReservationStats;
use crate::live::machine::usage::Usage;
use crate::pipeline::PipelineStats;
use crate::profile::{Losses, Profile};
use crate::replay::RecordStats;
use crate::sample::KindCost;
use crate::symbol::SymbolStats;

/// Counters and resource usage of a profiler.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Health {
    /// Events at which the sampling program ran, whatever became of them.
    pub ticks: u64,
    /// Of those, the number that was dropped: by [`Builder::pid`](crate::live::Builder::pid) or
    /// [`Builder::filter`](crate::live::Builder::filter), or because they were of this program.
    pub filtered: u64,
    /// Events that never became samples: the total of [`losses`](Health::losses).
    pub lost: u64,
    /// The same by cause: in the kernel up to 250 ms ago, in this program up to the last finished
    /// profile.
    ///
    /// The losses of all profiles together are these. Ticks of the clock that the kernel left out
    /// because it ran another program's BPF code are not known, and so in neither.
    pub losses: Losses,
    /// Bytes that went through the kernel's buffers.
    pub bytes: u64,
    /// Number of times that the kernel side woke this program.
    pub wakeups: u64,
    /// Number of runs of the sampling program, if the kernel counts them
    /// (`kernel.bpf_stats_enabled`).
    pub runs: u64,
    /// Time of those runs.
    pub run_time: Duration,
    /// Counters of all other samples.
    pub pipeline: PipelineStats,
    /// Counters of the symbolizer; zero for one that keeps none.
    pub symbols: SymbolStats,
    /// Counters of the delivery to sinks.
    pub sinks: SinkStats,
    /// The last 100 errors and panics of sinks.
    pub sink_errors: Vec<String>,
    /// Counters of the hook of [`Builder::enrich`](crate::live::Builder::enrich), if there is one.
    pub enrichment: Option<EnrichmentStats>,
    /// Work that deadlines cut off.
    pub deadline: DeadlineStats,
    /// Counters of the recording, if there is one.
    pub recording: Option<RecordStats>,
    /// Cost and periods, if there is a [`Budget`](crate::live::Budget).
    pub budget: Option<BudgetStats>,
    /// State of the [`Reservation`](crate::live::Reservation), if there is one.
    pub reservation: Option<ReservationStats>,
    /// Counters of the [`Broker`](crate::live::Broker), if there is one.
    pub broker: Option<BrokerStats>,
    /// Resource usage of this program up to now.
    pub usage: Usage,
}

/// Cost of a profiler with a [`Budget`](crate::live::Budget), and its periods.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BudgetStats {
    /// Budget as a share of the CPU time of all CPUs.
    pub share: f64,
    /// Cost in the last 250 ms as such a share: programs in the kernel and threads, with names and
    /// sinks.
    pub cost: f64,
    /// Time since the start at which the costs were measured, at most 250 ms ago.
    pub elapsed: Duration,
    /// CPU time of the profiler's threads since the start.
    pub threads: Duration,
    /// Number of changes of periods since the start.
    pub changes: u64,
    /// `true` if events that are not sampled alone exceed the budget: no period helps then, only
    /// fewer events.
    pub is_exceeded: bool,
    /// All kinds of samples.
    pub kinds: Vec<KindBudget>,
}

/// Period and cost of a kind of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindBudget {
    /// Name of the kind.
    pub name: String,
    /// Current period in the kind's unit; 0 if every event is sampled.
    pub period: u64,
    /// Cost since the start.
    pub cost: KindCost,
}

/// Counters of the delivery of profiles to sinks. Two sinks that take one profile count as two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinkStats {
    /// Profiles that a sink took.
    pub delivered: u64,
    /// Profiles that a sink answered with an error.
    pub errors: u64,
    /// Panics of sinks. A sink that panicked gets no further profiles.
    pub panics: u64,
    /// Profiles dropped because the sink's queue of 4 profiles was full, the sink had panicked, or
    /// the deadline had passed.
    pub dropped: u64,
    /// Samples in those.
    pub dropped_samples: u64,
    /// Intervals at which no profile was finished because naming of earlier ones took too long.
    /// Their samples are in the next profile.
    pub merged: u64,
}

/// Counters of the work that deadlines cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadlineStats {
    /// Samples that were in no finished profile at [`Builder::deadline`](crate::live::Builder::deadline).
    /// [`Health::losses`] has them too.
    pub samples: u64,
    /// Distinct addresses that were not symbolized by then.
    pub addresses: u64,
    /// Threads that were still at work: `ebpf-pipeline`, `ebpf-names`, `ebpf-sink-0`, … They end on
    /// their own as soon as their current call returns.
    pub threads: Vec<String>,
    /// Profiles that were ready after [`Builder::reply_deadline`](crate::live::Builder::reply_deadline): the
    /// sinks alone got them.
    pub replies: u64,
}

impl SinkStats {
    pub(super) fn count_dropped(&mut self, profiles: &[Profile]) {
        self.dropped += profiles.len() as u64;
        self.dropped_samples += profiles.iter().map(Profile::count).sum::<u64>();
    }
}
