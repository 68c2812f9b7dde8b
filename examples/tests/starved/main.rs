//! A profiler that gets a sixtieth of the machine: sixty programs are busy, each in a session of its own.
//!
//! By default the kernel gives each session the same share of the CPUs (`kernel.sched_autogroup_enabled`), whatever the niceness of
//! its threads. Needs root:
//!
//! ```sh
//! cargo test --release -p examples --test starved -- --ignored --test-threads=1 --nocapture
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod crowd;

use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Builder, Reservation};
use ebpf_profiler_core::profile::{Call, Profile, Sample};
use ebpf_profiler_core::symbol::NoSymbols;

use crowd::Crowd;

/// Sampling frequency per CPU, in Hz.
const FREQUENCY: u32 = 199;

/// Number of busy programs.
const PROGRAMS: usize = 60;

/// Time for which they are profiled.
const DURATION: Duration = Duration::from_secs(8);

/// Maximum life of a program.
const LIFE: Duration = Duration::from_secs(90);

const DEADLINE: Duration = Duration::from_secs(5);

/// Shares of the CPU time of the programs, in a profile.
#[derive(Debug)]
struct Shares {
    /// Samples.
    delivered: f64,
    /// Samples with whole stacks and the names of the program's functions.
    named: f64,
    /// Time until the last profile was returned.
    end: Duration,
}

#[test]
#[ignore = "profiles: needs root"]
fn reserved_profiler_has_whole_stacks() {
    test_needs::root!();
    test_needs::programs!("node", "perl", "php", "python3", "setsid");
    let crowd = Crowd::start(PROGRAMS, LIFE);
    crowd.wait_until_all_work();
    let reservation = Reservation::cpu(0.25);
    // As a program does that waits for its profiler alone.
    let _reserved = reservation.enter();
    let shares = profile(builder().reserve(reservation.clone()), &crowd);
    println!("reserved: {shares:?}, {:?}", reservation.stats());
    assert!(shares.delivered > 0.97 && shares.named > 0.93, "{shares:?}");
    assert!(shares.end < Duration::from_secs(2), "{shares:?}");
    assert!(reservation.stats().grants > 0 || !are_sessions_equal(), "{:?}", reservation.stats());
}

#[test]
#[ignore = "profiles: needs root"]
fn profiler_without_reservation_keeps_innermost_functions() {
    test_needs::root!();
    test_needs::programs!("node", "perl", "php", "python3", "setsid");
    let crowd = Crowd::start(PROGRAMS, LIFE);
    crowd.wait_until_all_work();
    let shares = profile(builder(), &crowd);
    println!("not reserved: {shares:?}");
    assert!(shares.delivered > 0.9, "{shares:?}");
    assert!(shares.end < DEADLINE + Duration::from_secs(2), "{shares:?}");
}

fn builder() -> Builder {
    Profiler::builder()
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
    let before = crowd.cpu_time();
    println!("started in {:?}", begin.elapsed());
    std::thread::sleep(DURATION);
    let used = crowd.cpu_time() - before;
    let stopped = Instant::now();
    let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    let end = stopped.elapsed();
    let ticks = (health.ticks - health.filtered) as f64 / f64::from(FREQUENCY);
    println!(
        "{used:.2} s of CPU time, {ticks:.2} s sampled; {} samples lost, {} late",
        health.lost, health.pipeline.late
    );
    let expected = used * f64::from(FREQUENCY);
    let share = |is_counted: &dyn Fn(&Sample<'_>) -> bool| count(&profile, crowd, is_counted) / expected;
    Shares { delivered: share(&|_| true), named: share(&is_named), end }
}

/// Returns the number of samples of the programs that are counted.
fn count(profile: &Profile, crowd: &Crowd, is_counted: &dyn Fn(&Sample<'_>) -> bool) -> f64 {
    let own = profile.samples().filter(|sample| crowd.has(sample.process().pid) && is_counted(sample));
    own.map(|sample| sample.count()).sum::<u64>() as f64
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
