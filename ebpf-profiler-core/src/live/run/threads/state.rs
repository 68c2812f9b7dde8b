//! Counters and errors that the threads keep, and the profiler's handle reads.

use std::sync::Arc;

use ebpf_programs::abi::reason::Counter;

use super::super::enrichment::EnrichmentStats;
use super::super::health::{BudgetStats, DeadlineStats, Health, SinkStats};
use crate::live::machine::reservation::ReservationStats;
use crate::live::machine::usage::Usage;
use crate::pipeline::PipelineStats;
use crate::profile::Losses;
use crate::replay::RecordStats;
use crate::sample::{Counts, SourceError};
use crate::symbol::SymbolStats;

/// Maximum number of retained sink errors.
const MAX_ERRORS: usize = 100;

/// Counters and errors of the threads.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct State {
    pub(in super::super) counts: Counts,
    pub(in super::super) pipeline: PipelineStats,
    pub(in super::super) symbols: SymbolStats,
    pub(in super::super) sinks: SinkStats,
    pub(in super::super) sink_errors: Vec<String>,
    pub(in super::super) deadline: DeadlineStats,
    /// Samples that were lost after they had left the kernel.
    pub(in super::super) losses: Losses,
    pub(in super::super) budget: Option<BudgetStats>,
    /// The error that ended the source, if any.
    pub(in super::super) broken: Option<Arc<SourceError>>,
    /// `true` if there will be no further samples: the source ended or failed, a thread panicked,
    /// or all processes that were asked for have exited.
    pub(in super::super) has_ended: bool,
}

impl State {
    /// Appends a sink error; drops the oldest beyond [`MAX_ERRORS`].
    pub(super) fn add_sink_error(&mut self, error: String) {
        if self.sink_errors.len() == MAX_ERRORS {
            self.sink_errors.remove(0);
        }
        self.sink_errors.push(error);
    }

    /// Returns the counters, with those of the recording, the reservation and the hook if there are
    /// any, and the resource usage up to now.
    pub(in super::super) fn health(
        self,
        recording: Option<RecordStats>,
        reservation: Option<ReservationStats>,
        enrichment: Option<EnrichmentStats>,
    ) -> Health {
        let (counts, mut losses) = (self.counts, self.losses);
        Counts::LOSSES
            .iter()
            .zip(counts.losses())
            .for_each(|(counter, lost)| losses.add(counter.text(), lost));
        Health {
            ticks: counts.get(Counter::Events),
            filtered: counts.get(Counter::Filtered),
            lost: losses.total(),
            losses,
            bytes: counts.get(Counter::Bytes),
            wakeups: counts.get(Counter::Wakeups),
            runs: counts.runs,
            run_time: counts.run_time,
            pipeline: self.pipeline,
            symbols: self.symbols,
            sinks: self.sinks,
            sink_errors: self.sink_errors,
            enrichment,
            deadline: self.deadline,
            recording,
            budget: self.budget,
            reservation,
            broker: None,
            usage: Usage::now(),
        }
    }
}
