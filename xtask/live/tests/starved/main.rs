//! A profiler that gets a sixtieth of the machine: sixty programs are busy, each in a session of
//! its own.
//!
//! By default the kernel gives each session the same share of the CPUs
//! (`kernel.sched_autogroup_enabled`), whatever the niceness of its threads. Needs root:
//!
//! ```sh
//! cargo build --release -p examples
//! cargo test --release -p live-suite --test starved -- --ignored --test-threads=1 --nocapture
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod clock;
mod crowd;
mod group;
mod returns;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Builder, Reservation};
use ebpf_profiler_core::profile::{Call, Sample};
use ebpf_profiler_core::symbol::NoSymbols;

use live_suite::paths::example;

use clock::Clock;
use crowd::Crowd;
use group::SmallGroup;

/// Sampling frequency per CPU, in Hz.
const FREQUENCY: u32 = 199;

/// Number of busy programs.
const PROGRAMS: usize = 60;

/// Time for which they are profiled.
const DURATION: Duration = Duration::from_secs(8);

/// Maximum life of a program.
const LIFE: Duration = Duration::from_secs(90);

const DEADLINE: Duration = Duration::from_secs(5);

/// Shares of what the kernel's own clock counted.
#[derive(Debug)]
struct Shares {
    /// The ticks that are samples of the profile.
    delivered: f64,
    /// The samples of the programs that are whole stacks with the names of their functions.
    named: f64,
    /// Time until the last profile was returned.
    end: Duration,
}

#[test]
#[ignore = "profiles: needs root"]
fn reserved_profiler_has_whole_stacks() {
    test_needs::root!();
    test_needs::programs!("node", "perl", "php", "python3", "setsid");
    let mut crowd = Crowd::start(PROGRAMS, LIFE);
    crowd.wait_until_all_work();
    let reservation = Reservation::cpu(0.25);
    // As a program does that waits for its profiler alone.
    let _reserved = reservation.enter();
    let shares = profile(builder().reserve(reservation.clone()), &crowd);
    println!("reserved: {shares:?}, {:?}", reservation.stats());
    assert!(shares.delivered > 0.99 && shares.named > 0.95, "{shares:?}");
    assert!(shares.end < Duration::from_secs(2), "{shares:?}");
    assert!(reservation.stats().grants > 0 || !are_sessions_equal(), "{:?}", reservation.stats());
}

#[test]
#[ignore = "profiles: needs root"]
fn profiler_without_reservation_keeps_innermost_functions() {
    test_needs::root!();
    test_needs::programs!("node", "perl", "php", "python3", "setsid");
    let mut crowd = Crowd::start(PROGRAMS, LIFE);
    crowd.wait_until_all_work();
    let shares = profile(builder(), &crowd);
    println!("not reserved: {shares:?}");
    assert!(shares.delivered > 0.98, "{shares:?}");
    assert!(shares.end < DEADLINE + Duration::from_secs(2), "{shares:?}");
}

/// Forms of starvation beside that of sessions.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root"]
    fn reserved_profiler_that_was_there_first_has_whole_stacks() {
        test_needs::root!();
        test_needs::programs!("node", "perl", "php", "python3", "setsid");
        let reservation = Reservation::cpu(0.25);
        let _reserved = reservation.enter();
        let profiler = builder().reserve(reservation.clone()).start();
        let profiler = profiler.unwrap_or_else(|error| panic!("{error}"));
        let mut crowd = Crowd::start(PROGRAMS, LIFE);
        crowd.wait_until_all_work();
        let shares = measure(profiler, &crowd);
        println!("there first: {shares:?}, {:?}", reservation.stats());
        assert!(shares.delivered > 0.995 && shares.named > 0.95, "{shares:?}");
        assert!(shares.end < Duration::from_secs(2), "{shares:?}");
    }

    /// A broker opens the files and memory of other processes; its threads take part.
    #[test]
    #[ignore = "profiles: needs root"]
    fn reserved_profiler_with_a_broker_has_whole_stacks() {
        test_needs::root!();
        test_needs::programs!("node", "perl", "php", "python3", "setsid");
        let mut crowd = Crowd::start(PROGRAMS, LIFE);
        crowd.wait_until_all_work();
        let file = std::env::temp_dir().join(format!("starved-{}.folded", std::process::id()));
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(example("flamegraph")).args(["--broker", "--output"]).arg(&file);
        command.args(["--frequency", &FREQUENCY.to_string(), "--seconds", &DURATION.as_secs().to_string()]);
        let begin = Instant::now();
        let output = command.output().unwrap();
        let took = begin.elapsed();
        println!("{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success());
        let folded = std::fs::read_to_string(&file).unwrap();
        let _ = std::fs::remove_file(file);
        let (mut all, mut named) = (0, 0);
        for line in folded.lines().filter(|line| is_of_crowd(line)) {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            let count: u64 = count.parse().unwrap();
            all += count;
            named +=
                if ["inner", "middle", "outer"].iter().any(|name| stack.contains(name)) { count } else { 0 };
        }
        println!("with a broker: {named} of {all} named, took {took:?}");
        assert!(all > 1000 && named as f64 > 0.95 * all as f64, "{named} of {all}");
        assert!(took < DURATION + Duration::from_secs(4), "{took:?}");
    }

    /// As a pod with a small request and limit.
    #[test]
    #[ignore = "profiles: needs root"]
    fn reserved_profiler_in_a_small_control_group_has_whole_stacks() {
        test_needs::root!();
        test_needs::programs!("node", "perl", "php", "python3", "setsid");
        let mut crowd = Crowd::start(PROGRAMS, LIFE);
        crowd.wait_until_all_work();
        let reservation = Reservation::cpu(0.25);
        let group = SmallGroup::enter().unwrap();
        let reserved = reservation.enter();
        // No earlier: until it asks for its part, a thread gets 4 ms in half a minute.
        group.shrink().unwrap();
        let shares = profile(builder().reserve(reservation.clone()), &crowd);
        println!("small group: {shares:?}, {:?}", reservation.stats());
        drop(reserved);
        drop(group);
        assert!(shares.delivered > 0.99 && shares.named > 0.95, "{shares:?}");
        assert!(shares.end < Duration::from_secs(2), "{shares:?}");
    }
}

/// Returns `true` for a line of a program of the crowd.
fn is_of_crowd(line: &str) -> bool {
    let program = line.split(';').next().unwrap_or_default();
    ["node", "MainThread", "perl", "php", "python", "ruby", "luajit"]
        .iter()
        .any(|name| program.starts_with(name))
}

fn builder() -> Builder {
    Profiler::builder()
        // The profiler has more or fewer ticks than its share of the time: its threads run when a tick wakes
        // them.
        .include_self()
        .frequency(FREQUENCY)
        .deadline(DEADLINE)
        .unwind(ebpf_profiler_unwind::tables())
        .symbolizer(NoSymbols)
        .languages(ebpf_profiler_hll::all())
}

/// Profiles the programs.
fn profile(builder: Builder, crowd: &Crowd) -> Shares {
    let begin = Instant::now();
    let profiler = builder.start().unwrap_or_else(|error| panic!("{error}"));
    println!("started in {:?}", begin.elapsed());
    measure(profiler, crowd)
}

/// Compares the samples of a running profiler with the ticks of the kernel's own clock.
fn measure(profiler: Profiler, crowd: &Crowd) -> Shares {
    let (since, clock) = (now(), Clock::start(FREQUENCY).unwrap());
    std::thread::sleep(DURATION);
    let (ticks, until) = (clock.ticks(), now());
    let stopped = Instant::now();
    let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    let end = stopped.elapsed();
    let count = |is_counted: &dyn Fn(&Sample<'_>) -> bool| {
        let times = profile.samples().filter(is_counted).flat_map(|sample| sample.timestamps());
        times.filter(|&time| (since..until).contains(time)).count()
    };
    let of_crowd = |sample: &Sample<'_>| crowd.has(sample.process().pid);
    let (all, own, named) =
        (count(&|_| true), count(&of_crowd), count(&|sample| of_crowd(sample) && is_named(sample)));
    println!(
        "{ticks} ticks, {all} samples, {own} of the programs, {named} named; {} lost, {} late",
        health.lost, health.pipeline.late
    );
    let (mut reasons, mut seconds) = (BTreeMap::<String, usize>::new(), BTreeMap::<u64, usize>::new());
    for sample in profile.samples().filter(|sample| of_crowd(sample) && !is_named(sample)) {
        let (times, why) = (sample.timestamps(), sample.trace().stop());
        *reasons.entry(format!("{} {why:?}", sample.thread().name)).or_default() += times.len();
        for time in times {
            *seconds.entry(time.saturating_sub(since) / 1_000_000_000).or_default() += 1;
        }
    }
    println!("not named: {reasons:?}");
    println!("not named by second: {seconds:?}");
    let share = |part: usize, all: usize| part as f64 / all as f64;
    Shares { delivered: share(all, ticks), named: share(named, own), end }
}

/// Returns the time in nanoseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Returns `true` for a whole stack with one of the program's own functions.
fn is_named(sample: &Sample<'_>) -> bool {
    let is_own =
        |call: Call<'_>| ["inner", "middle", "outer"].iter().any(|name| call.to_string().contains(name));
    sample.trace().is_whole() && sample.trace().calls().any(is_own)
}

fn are_sessions_equal() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1")
}
