//! Events that interrupt one another: each is in the profile or counted as lost.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Trigger, Uprobe};
use ebpf_profiler_core::profile::{Profile, Sample};

use live_suite::compile;
use live_suite::selection::is_matrix;

use crate::tracefs;
use crate::workload::chain;

/// Rounds of each of four threads: a call, a page fault, and a switch in every fourth.
const ROUNDS: u64 = 20_000;

/// The same in the matrix: ten million events.
const MATRIX_ROUNDS: u64 = 1_250_000;

const HERTZ: u32 = 10_000;

#[test]
#[ignore = "needs root"]
fn interrupted_events_are_sampled_or_counted_as_lost() {
    test_needs::root!();
    test_needs::programs!("gcc");
    tracefs::mount().unwrap();
    let rounds = if is_matrix() { MATRIX_ROUNDS } else { ROUNDS };
    let path =
        compile::program("events/reentrancy", "events/programs/reentrancy.c", &["-O1", "-g", "-pthread"]);

    let mut command = Command::new(&path);
    let mut child =
        command.arg(rounds.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let profiler = Profiler::builder()
        .frequency(HERTZ)
        .pid(child.id())
        .on(Trigger::cpu())
        .on(Uprobe::entry(&path, "hot"))
        .on(Trigger::page_faults(1))
        .on(Trigger::tracepoint("sched", "sched_switch"))
        // In interrupts, where the kernel skips programs if one runs.
        .on(Trigger::tracepoint("timer", "hrtimer_expire_entry"))
        .ring_size(512 << 20)
        .deadline(Duration::from_secs(600))
        .unwind(ebpf_profiler_unwind::tables())
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    writeln!(child.stdin.as_mut().unwrap()).unwrap();
    let threads: Vec<[u64; 5]> = (0..4)
        .map(|_| {
            let line = lines.next().unwrap().unwrap();
            let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            numbers.try_into().unwrap()
        })
        .collect();
    let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());

    let sum = |index: usize| threads.iter().map(|counts| counts[index]).sum::<u64>();
    let own = [sum(1), sum(2), sum(3)];
    let sampled = [1, 2, 3].map(|kind| events_in_work(&profile, kind));
    let missing: u64 = own.iter().zip(&sampled).map(|(own, sampled)| own.saturating_sub(*sampled)).sum();
    let lost: Vec<(&str, u64)> = profile.losses().collect();
    let total = health.ticks - health.filtered;
    println!("calls, faults, switches: {own:?}; sampled {sampled:?}; {total} samples; lost {lost:?}");
    let [ticks, interrupts] = [0, 4].map(|kind| profile.of_kind(kind).total());
    let expected = sum(4) / (1_000_000_000 / u64::from(HERTZ));
    println!("{ticks} ticks of {expected} by CPU time; {interrupts} timer interrupts");
    assert!(sum(1) == 4 * rounds && own[1] >= 4 * rounds && own[2] > rounds / 2, "{own:?}");
    assert!(missing <= health.lost, "{missing} events are missing, {} counted as lost", health.lost);
    // A thread can be switched off between its count and its work.
    for (kind, (own, sampled)) in own.iter().zip(&sampled).enumerate() {
        assert!(*sampled <= own + 8, "kind {kind}: {sampled} of {own}");
    }
    assert_eq!(health.pipeline.malformed, 0);
    assert!(health.lost * 20 <= total, "{lost:?} of {total}");
    assert!(health.pipeline.samples + health.pipeline.unwanted <= total, "{health:?}");
}

/// Number of the kind of switches.
const SWITCHES: usize = 3;

/// Returns the number of events of a kind within `work`, of switches also those around it, where
/// the thread reads its counts: also those at the copy of an instruction that a uprobe replaced,
/// which is in no file.
fn events_in_work(profile: &Profile, kind: usize) -> u64 {
    let of_kind = profile.of_kind(kind);
    let is_around = |name: &str| kind == SWITCHES && name == "run";
    let is_in_work = |sample: &Sample<'_>| {
        chain(sample).iter().any(|name| name == "work" || name == "[anonymous]" || is_around(name))
    };
    of_kind.samples().filter(is_in_work).map(|sample| sample.count()).sum()
}
