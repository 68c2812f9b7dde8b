//! Events that programs disturb: files that vanish, hot functions of a runtime, processes that
//! fork, execute and exit in each event, thousands of threads that sleep. A clear error or a
//! counted loss, and the clock's samples go on.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Builder, Health, Trigger};
use ebpf_profiler_core::profile::{Profile, Sample};

use crate::program::{is_in, sum};
use crate::tracefs;
use live_suite::workload::steps::{Running, build};

#[test]
#[ignore = "needs root"]
fn processes_that_fork_execute_and_exit_in_each_event_are_counted() {
    const TURNS: u64 = 200;
    test_needs::root!();
    test_needs::programs!("gcc");
    tracefs::mount().unwrap();
    let path = build("disturbed", "gcc", "lives.c", "forking", &["-pthread"]);
    let mut program = Running::start(Command::new(&path).args(["forks", &TURNS.to_string()]));
    let probe = format!("uprobe:{}:hot", path.display());
    let kinds = [
        "cpu",
        &probe,
        "malloc-live:1",
        "off-cpu",
        "page-faults",
        "tracepoint:sched:sched_process_exec",
        "tracepoint:sched:sched_process_fork",
        "tracepoint:sched:sched_process_exit",
    ];
    let profiler = start(&kinds, |builder| builder.frequency(997).pid(program.child.id()));
    program.step("end");
    let (profile, health) = profiler.finish().unwrap();
    let totals: Vec<u64> = profile.by_kind().map(|profile| profile.total()).collect();
    println!("{totals:?}, {} lost", health.lost);
    let [ticks, calls, held, _, _, execs, forks, exits] = totals[..] else { panic!() };
    assert!(calls <= 2 * TURNS && calls + health.lost >= 2 * TURNS, "{calls} calls");
    for (what, count) in [("execs", execs), ("forks", forks), ("exits", exits)] {
        assert!(count <= TURNS && count + health.lost >= TURNS, "{count} {what}");
    }
    assert!(ticks > 0);
    // The parent's own; those of its children went with them.
    assert!(held < 100_000, "{held} bytes in use");
    assert_sum(&profile, &health);
}

/// More threads than most machines have; each of them sleeps twice, and never wakes from the second
/// time.
///
/// A busy machine delays threads within their sleep, which is two waits then, one of them above the
/// threshold. Waits that end by a switch which the kernel hides are counted as lost.
#[test]
#[ignore = "needs root"]
fn ten_thousand_threads_that_sleep_are_counted() {
    const THREADS: u64 = 10_000;
    test_needs::root!();
    test_needs::programs!("gcc");
    let path = build("disturbed", "gcc", "lives.c", "sleeping", &["-pthread"]);
    let mut program = Running::start(Command::new(&path).args(["sleepers", &THREADS.to_string()]));
    let profiler = start(&["cpu", "off-cpu:20ms"], |builder| builder.frequency(997).pid(program.child.id()));
    program.step("end");
    let (profile, health) = profiler.finish().unwrap();
    let waits = profile.of_kind(1);
    let is_sleep = |sample: &Sample<'_>| is_in(sample, "sleeper") && is_in(sample, "usleep");
    let sleepers: BTreeSet<u32> =
        waits.samples().filter(is_sleep).map(|sample| sample.thread().tid).collect();
    let sleepers = sleepers.len() as u64;
    let ticks = profile.of_kind(0).total();
    println!("{sleepers} of {THREADS} threads that sleep, {} lost, {ticks} ticks", health.lost);
    assert!(sleepers <= THREADS && sleepers + health.lost >= THREADS, "{sleepers}");
    // A loss is no sleep that is counted as well, but for waits of other threads.
    assert!(sleepers + health.lost <= THREADS + 5, "{sleepers}, {} lost", health.lost);
    assert!(ticks > 0);
    assert_sum(&profile, &health);
}

/// Asserts that samples neither appear nor disappear unnoticed.
#[track_caller]
fn assert_sum(profile: &Profile, health: &Health) {
    assert_eq!(health.pipeline.malformed, 0, "{health:?}");
    let lost: u64 = profile.losses().map(|(_, count)| count).sum();
    assert_eq!(lost, health.lost, "{health:?}");
}

fn start(on: &[&str], with: impl FnOnce(Builder) -> Builder) -> Profiler {
    let builder = on.iter().fold(Profiler::builder(), |builder, text| builder.on(trigger(text)));
    let builder = with(builder.ring_size(64 << 20).deadline(Duration::from_secs(120)));
    builder.unwind(ebpf_profiler_unwind::tables()).start().unwrap_or_else(|error| panic!("{error}"))
}

fn trigger(text: &str) -> Trigger {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A program that spends its time in two functions.
const SCRIPT: &str = "import time
def inner(): return [None] * 3
def outer():
    end = time.monotonic() + 2
    while time.monotonic() < end: inner()
print('ready', flush=True); input()
outer()
print('end', flush=True); input()
";

/// Longer disturbances.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn files_that_vanish_are_errors_or_still_sampled() {
        test_needs::root!();
        test_needs::programs!("gcc");
        let path = build("disturbed", "gcc", "lives.c", "vanishing", &["-pthread"]);
        let on = format!("uprobe:{}:hot", path.display());
        let mut program = Running::start(Command::new(&path).args(["forks", "0"]));
        let profiler = start(&[&on, "cpu"], |builder| builder.pid(program.child.id()));
        // The probe is at the file, whatever its name.
        fs::remove_file(&path).unwrap();
        program.step("end");
        let (profile, health) = profiler.finish().unwrap();
        assert_eq!((profile.kinds().len(), health.lost), (2, 0));
        // Now there is none.
        let error = Profiler::builder()
            .frame_pointers_only()
            .on(trigger(&on))
            .start()
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(error.contains("the file has to exist when the profiler starts"), "{error}");
        // Files that come and go while places are searched and attached: it starts, or the error names the
        // file.
        let folder = path.with_file_name("flicker");
        let copy = build("disturbed", "gcc", "lives.c", "lasting", &["-pthread"]);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let flicker = folder.join("flicker");
        let is_done = std::sync::atomic::AtomicBool::new(false);
        let (mut started, mut failed) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = fs::hard_link(&copy, &flicker);
                    std::thread::sleep(Duration::from_millis(3));
                    let _ = fs::remove_file(&flicker);
                }
            });
            for _ in 0..12 {
                match Profiler::builder()
                    .frame_pointers_only()
                    .on(trigger(&format!("uprobe:{}:hot", flicker.display())))
                    .start()
                {
                    Ok(profiler) => {
                        started += 1;
                        profiler.stop().unwrap();
                    }
                    Err(error) => {
                        failed += 1;
                        assert!(error.to_string().contains("flicker"), "{error}");
                    }
                }
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        println!("{started} started, {failed} failed");
    }

    /// A function of each turn of the interpreter, and its allocations.
    #[test]
    #[ignore = "needs root"]
    fn hot_functions_of_a_runtime_leave_ticks_and_names() {
        test_needs::root!();
        let mut program = Running::start(Command::new("/usr/bin/python3").args(["-c", SCRIPT]));
        let probe = "uprobe:/usr/bin/python3:PyNumber_Multiply";
        let profiler = start(&["cpu", probe, "malloc-live"], |builder| {
            builder.frequency(97).pid(program.child.id()).languages(ebpf_profiler_hll::all())
        });
        program.step("end");
        let (profile, health) = profiler.finish().unwrap();
        let ticks = profile.of_kind(0).total();
        let named = sum(&profile, 0, |sample| is_in(sample, "outer"));
        let (calls, named_calls) =
            (profile.of_kind(1).total(), sum(&profile, 1, |sample| is_in(sample, "outer")));
        println!("{named} of {ticks} ticks named, {named_calls} of {calls} calls; {} lost", health.lost);
        assert!(ticks > 10 && named * 10 >= ticks * 8, "{named} of {ticks}");
        assert!(calls > 1000 && named_calls * 10 >= calls * 8, "{named_calls} of {calls}");
        assert_sum(&profile, &health);
    }
}
