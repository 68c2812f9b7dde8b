//! Memory in use against programs that know what they leak.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Budget, Builder, Health};
use ebpf_profiler_core::profile::{Profile, Unit};

use crate::points::{LIBRARIES, OTHERS};
use crate::program::{is_in, sum};
use live_suite::selection::is_matrix;
use live_suite::workload::steps::{Running, build};

/// Turns of `in_use.c`.
const TURNS: u64 = 400;

/// Bytes that each function leaves in use in a turn.
const HELD: [(&str, u64); 9] = [
    ("plain", 100),
    ("zeroed", 7 * 64),
    ("seed", 0),
    ("grow", 4000),
    ("grow_in_vain", 0),
    ("aligned", 640),
    ("posix", 1280),
    ("handed", 0),
    ("churn", 0),
];

/// The same after a part was freed.
const LEFT: [u64; 9] = [50, 7 * 64, 0, 0, 0, 640, 0, 0, 0];

#[test]
#[ignore = "needs root"]
fn memory_in_use_is_what_the_program_leaks() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = build("in_use", "gcc", "in_use.c", "in_use", &["-pthread"]);
    check_leak(&mut Command::new(&program), "malloc-live:1");
}

/// Checks two profiles of one run: with all that leaks, and with the rest after a part was freed.
fn check_leak(command: &mut Command, on: &str) {
    let mut program = Running::start(command);
    let profiler = start(on, |builder| builder.pid(program.child.id()));
    program.step("held");
    let first = profiler.take_profile().unwrap();
    program.step("end");
    let (second, health) = profiler.finish().unwrap();
    let bytes = |profile: &Profile| HELD.map(|(name, _)| of(profile, name));
    println!("{:?} in use, then {:?}", bytes(&first), bytes(&second));
    assert_eq!((first.kind().name(), first.kind().unit()), ("inuse_space", Unit::Bytes));
    assert_eq!(bytes(&first), HELD.map(|(_, bytes)| bytes * TURNS));
    assert_eq!(bytes(&second), LEFT.map(|bytes| bytes * TURNS));
    let chained =
        sum(&first, 0, |sample| ["main", "leak", "allocate", "plain"].iter().all(|name| is_in(sample, name)));
    assert_eq!(chained, 100 * TURNS);
    assert_none_lost(&health);
}

/// Each allocation is one of many of a known size, so that the standard error is known.
#[test]
#[ignore = "needs root"]
fn sampled_memory_in_use_is_right_on_average() {
    const PERIOD: u64 = 16_000;
    const ALLOCATIONS: u64 = 200_000;
    const SIZE: u64 = 16;
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = build("in_use", "gcc", "in_use.c", "in_use_sampled", &["-pthread"]);
    let mut program = Running::start(Command::new(program).arg("many"));
    let profiler = start(&format!("malloc-live:{PERIOD}"), |builder| builder.pid(program.child.id()));
    program.step("held");
    let first = profiler.take_profile().unwrap();
    program.step("end");
    let (second, health) = profiler.finish().unwrap();
    let (truth, total) = ((ALLOCATIONS * SIZE) as f64, of(&first, "many") as f64);
    // A sample of a binomial distribution: each of `ALLOCATIONS` counts as `PERIOD` with this probability.
    let probability = SIZE as f64 / PERIOD as f64;
    let error = PERIOD as f64 * (ALLOCATIONS as f64 * probability * (1.0 - probability)).sqrt();
    println!("{total} of {truth} bytes, {:+.1} standard errors", (total - truth) / error);
    assert!((total - truth).abs() < 6.0 * error, "{total} of {truth}, {error}");
    assert_eq!(of(&second, "many"), 0);
    assert_none_lost(&health);
}

/// Rounds of one profiler: their sums scatter as the standard error says.
#[test]
#[ignore = "needs root"]
fn sampled_memory_in_use_scatters_by_its_standard_error() {
    const PERIOD: u64 = 16_000;
    const ALLOCATIONS: u64 = 200_000;
    const SIZE: u64 = 16;
    test_needs::root!();
    test_needs::programs!("gcc");
    let rounds = if is_matrix() { 100 } else { 6 };
    let program = build("in_use", "gcc", "in_use.c", "in_use_series", &["-pthread"]);
    let mut program = Running::start(Command::new(program).arg("series"));
    let profiler = start(&format!("malloc-live:{PERIOD}"), |builder| builder.pid(program.child.id()));
    let probability = SIZE as f64 / PERIOD as f64;
    let error = PERIOD as f64 * (ALLOCATIONS as f64 * probability * (1.0 - probability)).sqrt();
    let mut scores = Vec::new();
    for _ in 0..rounds {
        program.step("held");
        let total = of(&profiler.take_profile().unwrap(), "many") as f64;
        program.step("free");
        scores.push((total - (ALLOCATIONS * SIZE) as f64) / error);
    }
    let (profile, health) = profiler.finish().unwrap();
    let (count, squares) = (f64::from(rounds), scores.iter().map(|score| score * score).sum::<f64>());
    let mean = scores.iter().sum::<f64>() / count.sqrt();
    let near = scores.iter().filter(|score| score.abs() < 1.96).count();
    println!(
        "{rounds} rounds: mean {mean:+.1} standard errors, squares {squares:.1}, {near} within 1.96: {scores:.1?}"
    );
    assert!(mean.abs() < 4.5, "{mean}");
    // Chi-squared with as many degrees of freedom as rounds.
    assert!((squares - count).abs() < 5.0 * (2.0 * count).sqrt() + 5.0, "{squares}");
    assert_eq!(of(&profile, "many"), 0);
    assert_none_lost(&health);
}

/// The governor raises the period while memory is allocated. What is sampled counts by the period
/// of its time.
#[test]
#[ignore = "needs root"]
fn memory_in_use_under_a_budget_is_right_on_average() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = build("in_use", "gcc", "in_use.c", "in_use_pour", &["-pthread"]);
    let mut program = Running::start(Command::new(program).arg("pour"));
    let budget = Budget::cpu(0.015);
    let profiler = start("malloc-live:1", |builder| builder.pid(program.child.id()).budget(budget));
    program.go();
    let truth: u64 = program.line().parse().unwrap();
    assert_eq!(program.line(), "held");
    let first = profiler.take_profile().unwrap();
    let stats = profiler.health().budget.unwrap();
    program.step("end");
    let (second, health) = profiler.finish().unwrap();
    let (total, period) = (of(&first, "pour_into"), first.sampling_periods().map(|it| it.period).max());
    let (samples, skipped) = (stats.kinds[0].cost.samples, stats.kinds[0].cost.skipped);
    let sampled = samples as f64 / (samples + skipped) as f64;
    // At most: an allocation of v bytes counts T with probability v / T, and the period T was lower at
    // first.
    let error = (truth as f64 * period.unwrap_or(1) as f64).sqrt();
    println!(
        "{total} of {truth} bytes, {:+.2} %, {:+.1} standard errors; {:.1} % sampled, periods up to {period:?}",
        100.0 * (total as f64 / truth as f64 - 1.0),
        (total as f64 - truth as f64) / error,
        100.0 * sampled
    );
    assert!(sampled > 0.0 && sampled < 0.9, "{stats:?}");
    assert!((total as f64 - truth as f64).abs() < 5.0 * error, "{total} of {truth}, {error}");
    assert_eq!(of(&second, "pour_into"), 0);
    assert_none_lost(&health);
}

#[test]
#[ignore = "needs root"]
fn memory_of_processes_that_exit_or_execute_is_not_in_use() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = build("in_use", "gcc", "in_use.c", "in_use_children", &["-pthread"]);
    let mut program = Running::start(Command::new(program).arg("children"));
    let profiler = start("malloc-live:1", |builder| builder.pid(program.child.id()));
    program.step("held");
    let first = profiler.take_profile().unwrap();
    program.step("end");
    let (second, health) = profiler.finish().unwrap();
    // The children freed what they inherited, which is their parent's.
    assert_eq!(of(&first, "plain"), 100 * TURNS);
    assert_eq!(of(&first, "allocate"), 0, "of children");
    assert_eq!(of(&second, "plain"), 0, "before execve");
    assert_none_lost(&health);
}

#[test]
#[ignore = "needs root"]
fn memory_beyond_the_limit_is_counted_as_lost() {
    const ALLOCATIONS: u64 = 200_000;
    const LIMIT: u64 = 131_072;
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = build("in_use", "gcc", "in_use.c", "in_use_many", &["-pthread"]);
    let mut program = Running::start(Command::new(program).arg("many"));
    let profiler = start("malloc-live:1", |builder| builder.pid(program.child.id()));
    program.step("held");
    let first = profiler.take_profile().unwrap();
    program.step("end");
    let (second, health) = profiler.finish().unwrap();
    let shown = of(&first, "many") / 16;
    println!("{shown} of {ALLOCATIONS} in use; lost: {:?}", first.losses().collect::<Vec<_>>());
    assert!(shown <= LIMIT && shown > LIMIT - 100, "{shown}");
    assert_eq!(shown + health.lost, ALLOCATIONS, "{health:?}");
    assert_eq!(of(&second, "many"), 0);
}

/// The program's own speed is printed, not compared.
#[test]
#[ignore = "needs root"]
fn profiler_follows_a_storm_of_allocations() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let path = build("in_use", "gcc", "in_use.c", "in_use_storm", &["-pthread"]);
    let calls = |is_profiled: bool| {
        let mut program = Running::start(Command::new(&path).arg("storm"));
        let profiler = is_profiled.then(|| start("malloc-live", |builder| builder.pid(program.child.id())));
        program.go();
        let calls: u64 = program.line().parse().unwrap();
        let started = Instant::now();
        let finished = profiler.map(|profiler| profiler.finish().unwrap());
        (calls, started.elapsed(), finished)
    };
    let (free, ..) = calls(false);
    let (followed, waited, finished) = calls(true);
    let (profile, health) = finished.unwrap();
    println!(
        "{free} calls without, {followed} with a profiler; {} samples, end within {waited:?}",
        health.pipeline.samples
    );
    // 64 to 163 bytes each, one sample in 512 KiB.
    let expected = followed as f64 * 113.5 / f64::from(512 << 10);
    let samples = health.pipeline.samples as f64;
    assert!((samples - expected).abs() < expected.sqrt() * 6.0 + 20.0, "{samples} of {expected}");
    assert_eq!(of(&profile, "storm_of"), 0);
    assert_none_lost(&health);
}

fn of(profile: &Profile, function: &str) -> u64 {
    sum(profile, 0, |sample| is_in(sample, function))
}

fn start(on: &str, with: impl FnOnce(Builder) -> Builder) -> Profiler {
    let builder = Profiler::builder().on(on.parse::<ebpf_profiler_core::live::Trigger>().unwrap());
    let builder = with(builder.ring_size(64 << 20).deadline(Duration::from_secs(120)));
    builder.unwind(ebpf_profiler_unwind::tables()).start().unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn assert_none_lost(health: &Health) {
    assert_eq!((health.lost, health.pipeline.malformed), (0, 0), "{health:?}");
}

/// Other allocators than the C library's.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn memory_in_use_of_other_allocators_is_what_the_program_leaks() {
        test_needs::root!();
        test_needs::programs!("gcc", "musl-gcc");
        let program = build("in_use", "gcc", "in_use.c", "in_use_of_others", &["-pthread"]);
        for (library, package) in OTHERS {
            let path = Path::new(LIBRARIES).join(library);
            test_needs::file!(&path, format!("apt-get install {package}"));
            println!("{library}:");
            check_leak(Command::new(&program).env("LD_PRELOAD", path), &format!("malloc-live:1:{library}"));
        }
        println!("musl:");
        let program = build("in_use", "musl-gcc", "in_use.c", "in_use_musl", &["-static", "-pthread"]);
        check_leak(&mut Command::new(&program), &format!("malloc-live:1:{}", program.display()));
    }
}
