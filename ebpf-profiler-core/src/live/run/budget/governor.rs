//! The governor: chooses the periods of all kinds of samples.
//!
//! ```text
//!   cost of a kind = time of its programs + its part of the CPU time of the threads
//!
//!   cost > 1.1 × budget                lengthen the periods of kinds above their fair share, to 0.7 × budget
//!   cost < 0.5 × budget for some time  shorten all periods; to 0 if sampling every event fits
//! ```
//!
//! The number of samples at a period T is at most the sum of the values / T. So T is the sum of the
//! values / the number of samples that the budget allows: one change is enough.

use std::time::Duration;

use ebpf_programs::abi::budget::MAX_PERIOD;

use crate::sample::KindCost;

/// Part of the budget at which a new period aims.
const AIM: f64 = 0.7;

/// Part of the budget above which periods are lengthened.
const HIGH: f64 = 1.1;

/// Part of the budget below which they are shortened.
const LOW: f64 = 0.5;

/// Time below [`LOW`] after which periods are shortened; doubled each time that this was wrong.
const SPEEDUP_DELAY: Duration = Duration::from_secs(2);

/// Longest such time.
const MAX_SPEEDUP_DELAY: Duration = Duration::from_secs(32);

/// CPU time of the threads for one sample, at most. Further time is that of the start, of tables
/// and of names, which fewer samples don't save.
const PER_SAMPLE: Duration = Duration::from_micros(10);

/// Samples of a kind below which its cost is not estimated.
const MIN_SAMPLES: u64 = 20;

/// Sums since the start of a profiler.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Measured {
    /// Time since any fixed moment.
    pub(in super::super) now: Duration,
    /// By the number of the kind.
    pub(in super::super) costs: Vec<KindCost>,
    /// CPU time of all threads of the profiler.
    pub(in super::super) threads: Duration,
}

/// Chooses the periods of all kinds of samples.
#[derive(Debug)]
pub(in super::super) struct Governor {
    /// Budget in CPUs.
    cpus: f64,
    periods: Vec<u64>,
    /// The shortest period of each kind; 0 to sample every event.
    shortest: Vec<u64>,
    last: Measured,
    /// State at the last change of a period, or when the cost was last above [`LOW`].
    quiet: Measured,
    speedup_delay: Duration,
    /// Time when periods were last shortened.
    shortened: Option<Duration>,
    stats: Stats,
}

/// Results of the last [update](Governor::update).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in super::super) struct Stats {
    /// Cost in CPUs, of everything.
    pub(in super::super) cpus: f64,
    /// Changes of periods since the start.
    pub(in super::super) changes: u64,
    /// Events without a sample alone exceed the budget.
    pub(in super::super) is_exceeded: bool,
}

/// Cost of one kind in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Of its samples.
    samples: f64,
    /// Of all other events.
    idle: f64,
}

impl Governor {
    /// Returns the governor for a budget of `cpus` CPUs, of kinds that have these periods at least.
    pub(in super::super) fn new(cpus: f64, shortest: Vec<u64>, now: Measured) -> Governor {
        Governor {
            cpus,
            periods: shortest.clone(),
            shortest,
            quiet: now.clone(),
            last: now,
            speedup_delay: SPEEDUP_DELAY,
            shortened: None,
            stats: Stats::default(),
        }
    }

    /// Returns the current periods by the number of the kind; 0 if every event is sampled.
    pub(in super::super) fn periods(&self) -> &[u64] {
        &self.periods
    }

    pub(in super::super) fn stats(&self) -> Stats {
        self.stats
    }

    /// Takes the sums of now, and changes the periods. Returns the numbers of the kinds whose
    /// periods have changed.
    pub(in super::super) fn update(&mut self, now: Measured) -> Vec<usize> {
        let window = now.since(&self.last, self.periods.len());
        let nanoseconds = window.now.as_nanos() as f64;
        if nanoseconds == 0.0 {
            return Vec::new();
        }
        let allowed = self.cpus * nanoseconds;
        let costs = window.by_kind();
        let total: f64 = costs.iter().map(|cost| cost.samples + cost.idle).sum();
        let kernel: f64 = window.costs.iter().map(kernel_time).sum();
        self.stats.cpus = (kernel + window.threads.as_nanos() as f64) / nanoseconds;
        self.stats.is_exceeded = costs.iter().map(|cost| cost.idle).sum::<f64>() > allowed;
        self.last = now;
        let former = self.periods.clone();
        if total > HIGH * allowed {
            self.lengthen(&window, &costs, AIM * allowed);
            if self.shortened.is_some_and(|at| self.last.now.saturating_sub(at) < 2 * self.speedup_delay) {
                self.speedup_delay = (2 * self.speedup_delay).min(MAX_SPEEDUP_DELAY);
            }
            self.quiet = self.last.clone();
        } else if total > LOW * allowed {
            self.quiet = self.last.clone();
        } else if self.last.now.saturating_sub(self.quiet.now) >= self.speedup_delay {
            self.shorten();
            self.quiet = self.last.clone();
        }
        let changed = |&kind: &usize| former[kind] != self.periods[kind];
        let changed: Vec<usize> = (0..former.len()).filter(changed).collect();
        self.stats.changes += changed.len() as u64;
        changed
    }

    /// Lengthens the periods of kinds above their fair share of `allowed` nanoseconds.
    fn lengthen(&mut self, window: &Measured, costs: &[Cost], allowed: f64) {
        let share = fair_share(costs.iter().map(|cost| cost.samples + cost.idle).collect(), allowed);
        for (kind, (period, cost)) in self.periods.iter_mut().zip(costs).enumerate() {
            let measured = &window.costs[kind];
            if cost.samples + cost.idle <= share || measured.samples == 0 {
                continue;
            }
            // What is left for samples; some, so that a profile is not empty.
            let left = (share - cost.idle).max(share / 10.0);
            let samples = measured.samples as f64 * left / cost.samples;
            if samples < measured.samples as f64 {
                let needed = (measured.value as f64 / samples.max(0.01)).ceil();
                *period = (needed as u64).max(*period + 1).clamp(2, MAX_PERIOD);
            }
        }
    }

    /// Shortens all periods, by the costs since the cost was low.
    fn shorten(&mut self) {
        let window = self.last.since(&self.quiet, self.periods.len());
        let allowed = AIM * self.cpus * window.now.as_nanos() as f64;
        let costs = window.by_kind();
        // The cost if every event were sampled.
        let full: Vec<Option<f64>> =
            window.costs.iter().zip(&costs).map(|(it, cost)| full(it, cost)).collect();
        let all: Option<f64> = full.iter().copied().sum();
        let is_possible = all.is_some_and(|all| all <= allowed);
        let longer = self.periods.iter_mut().zip(&self.shortest).zip(&full);
        for ((period, shortest), full) in longer.filter(|((period, shortest), _)| **period > **shortest) {
            *period = match full {
                Some(_) if is_possible => 0,
                // No event: nothing is known.
                Some(cost) if *cost == 0.0 => *period / 4,
                _ => *period / 2,
            };
            if *period <= 1 {
                *period = 0;
            }
            *period = (*period).max(*shortest);
            self.shortened = Some(self.last.now);
        }
    }
}

/// Returns the cost of a kind if every event were sampled; `None` if there are too few samples to
/// say.
fn full(measured: &KindCost, cost: &Cost) -> Option<f64> {
    if measured.skipped == 0 {
        return Some(cost.samples + cost.idle);
    }
    let events = (measured.samples + measured.skipped) as f64;
    (measured.samples >= MIN_SAMPLES).then(|| cost.samples * events / measured.samples as f64)
}

/// Returns the time of a kind's programs in nanoseconds.
fn kernel_time(cost: &KindCost) -> f64 {
    (cost.time + cost.idle_time).as_nanos() as f64
}

/// Returns the amount of which no cost may have more, so that their sum is at most `allowed`.
fn fair_share(mut costs: Vec<f64>, allowed: f64) -> f64 {
    costs.sort_unstable_by(f64::total_cmp);
    let mut left = allowed;
    for (index, cost) in costs.iter().enumerate() {
        let share = left / (costs.len() - index) as f64;
        if *cost > share {
            return share;
        }
        left -= cost;
    }
    f64::INFINITY
}

impl Measured {
    /// Returns the differences to earlier sums, of `kinds` kinds.
    fn since(&self, before: &Measured, kinds: usize) -> Measured {
        let get = |costs: &[KindCost], kind: usize| costs.get(kind).cloned().unwrap_or_default();
        let difference = |kind| get(&self.costs, kind).since(&get(&before.costs, kind));
        Measured {
            now: self.now.saturating_sub(before.now),
            costs: (0..kinds).map(difference).collect(),
            threads: self.threads.saturating_sub(before.threads),
        }
    }

    /// Returns the cost of each kind.
    fn by_kind(&self) -> Vec<Cost> {
        let samples: u64 = self.costs.iter().map(|cost| cost.samples).sum();
        let threads = self.threads.as_nanos() as f64 / samples.max(1) as f64;
        let per_sample = threads.min(PER_SAMPLE.as_nanos() as f64);
        let cost = |it: &KindCost| Cost {
            samples: it.time.as_nanos() as f64 + it.samples as f64 * per_sample,
            idle: it.idle_time.as_nanos() as f64,
        };
        self.costs.iter().map(cost).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind whose events have a value, and cost time if they are sampled or skipped.
    struct Load {
        rate: f64,
        value: f64,
        sampled: f64,
        skipped: f64,
    }

    /// A machine of one CPU with some loads.
    struct Machine {
        governor: Governor,
        measured: Measured,
        /// CPU time in nanoseconds in the last window.
        cost: f64,
    }

    const WINDOW: Duration = Duration::from_millis(250);

    impl Machine {
        fn new(budget: f64, kinds: usize) -> Machine {
            let measured = Measured { costs: vec![KindCost::default(); kinds], ..Measured::default() };
            Machine { governor: Governor::new(budget, vec![0; kinds], measured.clone()), measured, cost: 0.0 }
        }

        /// Runs for some windows. Returns the cost of the last one in CPUs.
        fn run(&mut self, windows: u32, loads: &[Load]) -> f64 {
            for _ in 0..windows {
                self.cost = 0.0;
                for (kind, load) in loads.iter().enumerate() {
                    let period = self.governor.periods[kind] as f64;
                    let events = load.rate * WINDOW.as_secs_f64();
                    let samples = events * if period > load.value { load.value / period } else { 1.0 };
                    let cost = &mut self.measured.costs[kind];
                    cost.samples += samples.round() as u64;
                    cost.skipped += (events - samples).round() as u64;
                    cost.time += Duration::from_nanos((samples * load.sampled) as u64);
                    cost.idle_time += Duration::from_nanos(((events - samples) * load.skipped) as u64);
                    cost.value += (samples * period.max(load.value)) as u64;
                    self.cost += samples * load.sampled + (events - samples) * load.skipped;
                }
                self.measured.now += WINDOW;
                let _ = self.governor.update(self.measured.clone());
            }
            self.cost / WINDOW.as_nanos() as f64
        }
    }

    fn load(rate: f64, value: f64) -> Load {
        Load { rate, value, sampled: 5_000.0, skipped: 50.0 }
    }

    #[test]
    fn load_of_ten_budgets_is_held_after_one_change() {
        let mut machine = Machine::new(0.005, 1);
        assert!(machine.run(1, &[load(10_000.0, 4096.0)]) > 0.049);
        let cost = machine.run(1, &[load(10_000.0, 4096.0)]);
        assert!(cost < 0.0055, "{cost}");
        assert!(machine.governor.periods[0] > 40_960, "{:?}", machine.governor.periods);
        machine.run(100, &[load(10_000.0, 4096.0)]);
        assert!(machine.governor.stats.changes <= 3, "{}", machine.governor.stats.changes);
    }

    #[test]
    fn kind_within_its_fair_share_is_not_changed() {
        let mut machine = Machine::new(0.01, 2);
        machine.run(8, &[load(100.0, 1.0), load(50_000.0, 300.0)]);
        assert_eq!(machine.governor.periods[0], 0);
        assert!(machine.governor.periods[1] > 300);
    }

    #[test]
    fn every_event_is_sampled_again_when_there_is_room() {
        let mut machine = Machine::new(0.005, 1);
        machine.run(8, &[load(50_000.0, 1.0)]);
        assert!(machine.governor.periods[0] > 50);
        machine.run(4, &[load(500.0, 1.0)]);
        assert!(machine.governor.periods[0] > 50, "not at once");
        machine.run(200, &[load(500.0, 1.0)]);
        assert_eq!(machine.governor.periods[0], 0);
    }

    #[test]
    fn periods_do_not_swing() {
        let mut machine = Machine::new(0.005, 1);
        // Half of the time it is above the budget.
        for _ in 0..100 {
            machine.run(12, &[load(20_000.0, 1.0)]);
            machine.run(12, &[load(10.0, 1.0)]);
        }
        assert!(machine.governor.stats.changes < 100, "{}", machine.governor.stats.changes);
    }

    #[test]
    fn storm_whose_skipped_events_exceed_the_budget_is_reported() {
        let mut machine = Machine::new(0.005, 1);
        let cost = machine.run(8, &[load(1e6, 1.0)]);
        assert!(machine.governor.stats.is_exceeded);
        assert!(cost < 0.052, "samples cost little beside them: {cost}");
    }

    #[test]
    fn cost_of_the_start_changes_no_period() {
        let mut machine = Machine::new(0.005, 1);
        machine.measured.threads += Duration::from_secs(1);
        machine.run(1, &[load(100.0, 1.0)]);
        assert_eq!(machine.governor.periods[0], 0);
        assert!(machine.governor.stats.cpus > 4.0);
    }
}
