//! The governor: cost is held to the budget, and totals stay those of the program's own count.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Budget, BudgetStats, Health, OffCpu, Trigger, Uprobe};
use ebpf_profiler_core::profile::Profile;

use live_suite::compile;
use live_suite::selection::is_matrix;

/// Time in which the governor reaches the budget.
const SETTLED: Duration = Duration::from_secs(2);

#[test]
#[ignore = "needs root"]
fn allocations_are_held_to_the_budget_and_their_total_is_right() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let trigger = |path: &Path| Uprobe::entry(path, "allocate").argument(0).into();
    let held = hold("calls", "20", trigger, 0.2);
    held.check(0);
    assert!(held.profile.sampling_periods().next().is_some_and(|first| first.period > 528));
}

/// A profiled run with a budget.
struct Held {
    profile: Profile,
    health: Health,
    /// Sum of the values by the program's own count.
    truth: u64,
    /// Cost of a stretch without a budget in CPUs, and the part of it that is the budget.
    free: f64,
    part: f64,
    /// Cost of a stretch after the budget was reached in CPUs.
    cost: f64,
    /// Share of events that were sampled in that stretch.
    sampled: f64,
}

impl Held {
    /// Checks totals and cost; of 1,000 events, `losses` may be lost.
    fn check(&self, losses: u64) {
        // The first thread waits for its input.
        let worked = self.profile.samples().filter(|sample| sample.thread().tid != sample.process().pid);
        let (total, truth) = (worked.map(|sample| sample.value()).sum::<u64>(), self.truth);
        let deviation = total as f64 / truth as f64 - 1.0;
        let Held { free, part, cost, sampled, .. } = self;
        println!(
            "{:.2} % of a CPU without a budget, {:.2} % with {:.2} %; {:.1} % of the events sampled; \
             total {total}, truth {truth} ({:+.2} %); {:?}",
            100.0 * free,
            100.0 * cost,
            100.0 * free * part,
            100.0 * sampled,
            100.0 * deviation,
            self.health.budget
        );
        let is_kept =
            self.health.lost * 1000 <= losses * self.health.ticks && self.health.pipeline.malformed == 0;
        assert!(is_kept, "{:?}", self.health);
        // Other work on the machine changes the load between the two stretches.
        let (most, scatter) = if is_matrix() { (2.0 * part, 0.02) } else { (0.9, 0.1) };
        assert!(*sampled > 0.0 && *sampled < most, "{sampled}");
        assert!(deviation.abs() < scatter, "{total}, {truth}");
        // The governor reacts above 1.1 budgets; the rest is for a load that changes.
        assert!(!is_matrix() || *cost < 1.5 * part * free, "{cost} of {free}");
    }
}

/// Measures the cost of a load without a limit, and profiles it with a budget of `part` of that.
fn hold(mode: &str, rate: &str, trigger: impl Fn(&Path) -> Trigger, part: f64) -> Held {
    let path = build(mode);
    let mut free = Load::start(&path, mode, rate);
    let profiler = start(&free, trigger(&path), Budget::cpu(1.0));
    free.begin();
    let (cost, sampled) = cost_of(&profiler, Duration::from_secs(2));
    assert!(sampled == 1.0 || !is_matrix(), "nothing is skipped below the budget");
    profiler.stop().unwrap();
    free.end();

    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    let mut load = Load::start(&path, mode, rate);
    let profiler = start(&load, trigger(&path), Budget::cpu(cost * part / cpus));
    load.begin();
    sleep(SETTLED);
    let held = cost_of(&profiler, Duration::from_secs(5));
    let truth = load.end();
    let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    Held { profile, health, truth, free: cost, part, cost: held.0, sampled: held.1 }
}

/// Returns the cost of samples in CPUs during `time`, as the governor counts it, and the share of
/// events that were sampled.
fn cost_of(profiler: &Profiler, time: Duration) -> (f64, f64) {
    let before = budget(profiler);
    sleep(time);
    let after = budget(profiler);
    let elapsed = (after.elapsed - before.elapsed).as_secs_f64();
    let (before_kind, after_kind) = (&before.kinds[0].cost, &after.kinds[0].cost);
    let (samples, skipped) =
        (after_kind.samples - before_kind.samples, after_kind.skipped - before_kind.skipped);
    let kernel = after_kind.time + after_kind.idle_time - before_kind.time - before_kind.idle_time;
    let threads = (after.threads - before.threads).min(Duration::from_micros(10) * samples as u32);
    ((kernel + threads).as_secs_f64() / elapsed, samples as f64 / (samples + skipped) as f64)
}

/// Returns the stats once there are some.
fn budget(profiler: &Profiler) -> BudgetStats {
    loop {
        if let Some(stats) = profiler.health().budget {
            return stats;
        }
        sleep(Duration::from_millis(50));
    }
}

fn start(load: &Load, trigger: Trigger, budget: Budget) -> Profiler {
    let builder = Profiler::builder().on(trigger).pid(load.child.id()).budget(budget);
    let builder = builder.ring_size(64 << 20).deadline(Duration::from_secs(60));
    builder.unwind(ebpf_profiler_unwind::tables()).start().unwrap_or_else(|error| panic!("{error}"))
}

/// A program that causes events.
struct Load {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Load {
    fn start(path: &Path, mode: &str, rate: &str) -> Load {
        let mut command = Command::new(path);
        let mut child =
            command.args([mode, rate]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Load { child, lines }
    }

    fn begin(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }

    /// Ends the program and returns the sum of its events' values.
    fn end(&mut self) -> u64 {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert!(self.child.wait().unwrap().success());
        line.trim_end().split_once(' ').unwrap().1.parse().unwrap()
    }
}

fn build(mode: &str) -> PathBuf {
    let flags = ["-O1", "-g", "-fno-optimize-sibling-calls", "-pthread"];
    compile::program(&format!("events/budget/{mode}"), "events/programs/budget.c", &flags)
}

/// Budgets of other kinds.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn waits_are_held_to_the_budget_and_their_time_is_right() {
        test_needs::root!();
        test_needs::programs!("gcc");
        // Waits that end by a switch which the kernel hides are lost.
        hold("waits", "10", |_| OffCpu::longer_than(Duration::ZERO).into(), 0.25).check(1);
    }
}
