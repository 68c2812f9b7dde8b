//! The governor at work: measures, and changes periods.

use std::time::{Duration, Instant, SystemTime};

use super::super::budget::{Governor, Measured};
use super::super::health::{BudgetStats, KindBudget};
use crate::live::machine::cpus;
use crate::live::trigger::Trigger;
use crate::profile::SamplingPeriod;
use crate::sample::{Source, SourceError};

/// A budget, and the kinds of samples that it is for.
pub(in super::super) struct KeptBudget {
    /// Budget in CPUs.
    cpus: f64,
    names: Vec<String>,
    /// The shortest period of each kind.
    shortest: Vec<u64>,
}

impl KeptBudget {
    pub(in super::super) fn new(cpus: f64, triggers: &[Trigger]) -> KeptBudget {
        let kinds = |trigger: &Trigger| trigger.kinds(Duration::ZERO).into_iter();
        let names = triggers.iter().flat_map(kinds).map(|kind| kind.name().to_owned());
        let shortest = triggers.iter().flat_map(|trigger| kinds(trigger).map(|_| trigger.period()));
        KeptBudget { cpus, names: names.collect(), shortest: shortest.collect() }
    }
}

/// Keeps the cost of a profiler within its budget.
#[derive(Debug)]
pub(super) struct BudgetKeeper {
    names: Vec<String>,
    /// Budget in CPUs.
    cpus: f64,
    governor: Governor,
    start: Instant,
    /// Periods of the current profile.
    periods: Vec<SamplingPeriod>,
}

impl BudgetKeeper {
    pub(super) fn new(KeptBudget { cpus, names, shortest }: KeptBudget) -> BudgetKeeper {
        let governor = Governor::new(cpus, shortest, Measured::default());
        BudgetKeeper { governor, names, cpus, start: Instant::now(), periods: Vec::new() }
    }

    /// Measures the cost, and changes the periods of `source` if necessary. `threads` is the CPU
    /// time of all threads.
    pub(super) fn keep(
        &mut self,
        source: &mut dyn Source,
        threads: Duration,
    ) -> Result<BudgetStats, SourceError> {
        let (costs, elapsed) = (source.costs(), self.start.elapsed());
        let changed = self.governor.update(Measured { now: elapsed, costs: costs.clone(), threads });
        for kind in changed {
            let period = self.governor.periods()[kind];
            source.set_kind_period(kind, period)?;
            self.periods.push(SamplingPeriod { kind, since: SystemTime::now(), period });
        }
        let all = cpus::online().map_or(1, |cpus| cpus.len()) as f64;
        let stats = self.governor.stats();
        let kinds = self.names.iter().zip(self.governor.periods()).zip(costs);
        Ok(BudgetStats {
            share: self.cpus / all,
            cost: stats.cpus / all,
            elapsed,
            threads,
            changes: stats.changes,
            is_exceeded: stats.is_exceeded,
            kinds: kinds
                .map(|((name, &period), cost)| KindBudget { name: name.clone(), period, cost })
                .collect(),
        })
    }

    /// Returns the periods of the profile that ends. The next one begins with those that are in
    /// force.
    pub(super) fn take_periods(&mut self) -> Vec<SamplingPeriod> {
        let now = SystemTime::now();
        let periods = self.governor.periods().iter().enumerate().filter(|(_, period)| **period > 0);
        let next = periods.map(|(kind, &period)| SamplingPeriod { kind, since: now, period }).collect();
        std::mem::replace(&mut self.periods, next)
    }
}
