//! Waits for locks, times of functions, states of waits and disk I/O against a program that
//! measures itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Health, Trigger};
use ebpf_profiler_core::profile::{Profile, Sample, Unit};

use live_suite::compile;

use crate::tracefs;
use crate::workload::chain;

#[test]
#[ignore = "needs root"]
fn futex_waits_agree_with_the_time_in_mutexes() {
    test_needs::root!();
    test_needs::programs!("gcc");
    tracefs::mount().unwrap();
    let run = Run::new("locks", |_| vec!["futex".parse().unwrap()]);
    assert_eq!((run.profile.kind().name(), run.profile.kind().unit()), ("futex", Unit::Nanoseconds));
    let mut sums = [0; 2];
    for (name, &[tid, measured, _]) in &run.threads {
        let of_lock = |sample: &Sample<'_>| has_chain(sample, &["start_thread", "work", "locker", "take"]);
        let in_lock = run.sum(0, |sample| sample.thread().tid == tid as u32 && of_lock(sample));
        println!("{name}: {in_lock} ns, {measured} ns around the calls");
        // Each wait is within a call.
        assert!(in_lock <= measured, "{in_lock}, {measured}");
        sums = [sums[0] + in_lock, sums[1] + measured];
    }
    // Between the two there is little but the scheduler.
    assert!(sums[0] as f64 > 0.8 * sums[1] as f64, "{sums:?}");
    assert_eq!(run.health.lost, 0);
}

#[test]
#[ignore = "needs root"]
fn times_of_a_recursive_function_are_between_those_within_and_around_it() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let run = Run::new("times", |path| vec![format!("uprobe:{}:slow:time", path.display()).parse().unwrap()]);
    let [tid, within, around] = run.threads["timer"];
    let time = run.sum(0, |sample| sample.thread().tid == tid as u32);
    println!("{within} ns within, {time} ns, {around} ns around");
    assert!(within <= time && time <= around, "{within}, {time}, {around}");
    assert_eq!((run.profile.count(), run.health.lost), (3 * 200, 0));
    assert_eq!(run.profile.kind().unit(), Unit::Nanoseconds);
}

#[test]
#[ignore = "needs root"]
fn blocked_and_runnable_time_agree_with_the_scheduler() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let run = Run::new("states", |_| vec![Trigger::cpu(), "off-cpu-states".parse().unwrap()]);
    let names: Vec<&str> = run.profile.kinds().iter().map(|kind| kind.name()).collect();
    assert_eq!(names, ["cpu", "blocked", "runnable"]);
    for (name, &[tid, off_cpu, queued]) in &run.threads {
        let of_thread = |sample: &Sample<'_>| sample.thread().tid == tid as u32;
        let [blocked, runnable] = [1, 2].map(|kind| run.sum(kind, of_thread));
        println!(
            "{name}: {blocked} ns blocked, {runnable} ns runnable; {off_cpu} ns off the CPU, {queued} ns queued"
        );
        // Time of interrupts, and that which a hypervisor gives to others, is of no thread for the
        // scheduler.
        let slack = off_cpu / 20 + 50_000_000;
        assert!((blocked + runnable).abs_diff(off_cpu) <= slack, "{name}");
        assert!(runnable.abs_diff(queued) <= slack, "{name}");
        let is_spinner = name.starts_with("spinner");
        assert!(if is_spinner { runnable > 5 * blocked } else { blocked > 800_000_000 }, "{name}");
    }
    let naps = run.sum(1, |sample| {
        &*sample.thread().name == "napper" && has_chain(sample, &["start_thread", "work", "napper", "nap"])
    });
    assert!(naps > 800_000_000, "{naps}");
}

/// Each wait has an end at once, in the stack that wrote.
#[test]
#[ignore = "needs root"]
fn waits_for_a_pipe_are_those_of_the_stack_that_writes() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let run = Run::new("wakes", |_| vec!["off-cpu-wakers".parse().unwrap()]);
    let names: Vec<&str> = run.profile.kinds().iter().map(|kind| kind.name()).collect();
    assert_eq!(names, ["off-cpu", "wakers"]);
    let ([ringer, rings, _], [listener, measured, _]) = (run.threads["ringer"], run.threads["listener"]);
    // An interrupt of the thread may wake others, whose waits are its own, too.
    let is_interrupted = |name: &String| name.contains("sysvec") || name.contains("_irq");
    let is_ring = |sample: &Sample<'_>| {
        sample.thread().tid == ringer as u32
            && has_chain(sample, &["start_thread", "work", "ringer", "ring"])
            && !chain(sample).iter().any(is_interrupted)
    };
    let (blocked, woken) = (
        run.sum(0, |sample| {
            sample.thread().tid == listener as u32 && has_chain(sample, &["work", "listener"])
        }),
        run.sum(1, is_ring),
    );
    let wakers = run.profile.of_kind(1);
    let count: u64 = wakers.samples().filter(is_ring).map(|sample| sample.count()).sum();
    println!(
        "{measured} ns within read, {blocked} ns off the CPU, {woken} ns until {count} of {rings} writes"
    );
    assert!(woken <= measured && woken <= blocked, "{woken}, {blocked}, {measured}");
    assert!(woken as f64 > 0.9 * measured as f64, "{woken} of {measured}");
    // The listener may be preempted before it waits, and find the byte there.
    assert!(count <= rings && count * 100 >= rings * 98, "{count} of {rings}");
    let is_of_profiler = |name: &String| name.contains("bpf_");
    assert!(!wakers.samples().any(|sample| chain(&sample).iter().any(is_of_profiler)));
}

#[test]
#[ignore = "needs root"]
fn bytes_of_direct_writes_are_exact() {
    test_needs::root!();
    test_needs::programs!("gcc");
    tracefs::mount().unwrap();
    let run = Run::new("disk", |_| vec!["block-io".parse().unwrap()]);
    let [_, accounted, bytes] = run.threads["writer"];
    let known = ["start_thread", "work", "writer", "store"];
    let issued = run.sum(0, |sample| has_chain(sample, &known));
    println!("{issued} bytes issued, {accounted} by /proc/thread-self/io");
    assert_eq!((issued, accounted), (bytes, bytes));
    assert_eq!((run.profile.kind().name(), run.profile.kind().unit()), ("block-io", Unit::Bytes));
}

#[test]
#[ignore = "needs root"]
fn latency_of_a_disk_is_within_the_time_of_its_reads() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let run = Run::new("latency", |_| vec!["block-latency".parse().unwrap()]);
    let [tid, measured, reads] = run.threads["reader"];
    let is_load = |sample: &Sample<'_>| {
        sample.thread().tid == tid as u32 && has_chain(sample, &["start_thread", "work", "reader", "load"])
    };
    let latency = run.profile.of_kind(0);
    let (time, requests) = (
        run.sum(0, is_load),
        latency.samples().filter(|sample| is_load(sample)).map(|sample| sample.count()).sum::<u64>(),
    );
    println!("{requests} requests of {reads} reads, {time} ns of {measured} ns around the calls");
    assert_eq!((requests, run.health.lost), (reads, 0), "{:?}", run.health);
    // Between the two there is the file system, and the scheduler.
    assert!(time <= measured && time > measured / 20, "{time} of {measured}");
    assert_eq!((latency.kind().name(), latency.kind().unit()), ("block-latency", Unit::Nanoseconds));
}

/// The kernel's own statistics of a device that no other program uses.
#[test]
#[ignore = "needs root"]
fn latency_of_a_disk_agrees_with_its_statistics() {
    test_needs::root!();
    test_needs::programs!("gcc", "losetup");
    let device = Loop::new();
    let before = device.statistics();
    let run = Run::on("latency", Some(&device.0), |_| vec!["block-latency".parse().unwrap()]);
    let after = device.statistics();
    let [reads, joined_reads, read_ms, writes, joined_writes, write_ms] =
        std::array::from_fn(|index| after[index] - before[index]);
    let (time, requests) = (run.profile.total(), run.profile.count());
    let (milliseconds, joined) = (read_ms + write_ms, joined_reads + joined_writes);
    println!(
        "{requests} requests, {time} ns; {reads} + {writes} + {joined} joined, {milliseconds} ms in /proc/diskstats"
    );
    // A flush without data is a write. The statistics count a request that joins a neighbour apart.
    assert_eq!((requests, run.health.lost), (reads + writes + joined, 0));
    assert_eq!(reads + joined_reads, 200);
    // A request of the statistics begins within the latency, and ends behind the program that samples
    // it and wakes this one: 10 to 50 µs in 30 to 150. They count whole milliseconds.
    let statistics = milliseconds * 1_000_000;
    assert!(2 * time + 1_000_000 >= statistics, "{time}, {statistics}");
    assert!((time as f64) < 1.25 * statistics as f64 + 20e6, "{time}, {statistics}");
}

/// A device in a file.
struct Loop(PathBuf);

impl Loop {
    fn new() -> Loop {
        let file = folder("latency").join("device");
        fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
        let mut losetup = Command::new("losetup");
        let output = losetup.args(["--find", "--show"]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Loop(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()))
    }

    /// Returns the numbers of reads and writes, those that joined another, and the milliseconds of
    /// both.
    fn statistics(&self) -> [u64; 6] {
        let name = self.0.file_name().unwrap().to_str().unwrap().to_owned();
        let all = fs::read_to_string("/proc/diskstats").unwrap();
        let words = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let words = all.lines().map(words).find(|words| words[2] == name).unwrap();
        // Completed, joined and milliseconds, after three words of the name.
        [3, 4, 6, 7, 8, 10].map(|index: usize| words[index].parse().unwrap())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root"]
fn field_of_a_tracepoint_is_the_value() {
    test_needs::root!();
    test_needs::programs!("gcc");
    tracefs::mount().unwrap();
    let run = Run::new("disk", |_| vec!["tracepoint:syscalls:sys_enter_pwrite64:count".parse().unwrap()]);
    let stored = run.sum(0, |sample| chain(sample).contains(&"store".to_owned()));
    assert_eq!(stored, run.threads["writer"][2]);
    let unknown = "tracepoint:syscalls:sys_enter_pwrite64:no_field".parse::<Trigger>().unwrap();
    let error =
        Profiler::builder().on(unknown).frame_pointers_only().start().map(drop).unwrap_err().to_string();
    assert!(error.contains("has no integer no_field"), "{error}");
}

/// One profiled run of the program.
struct Run {
    profile: Profile,
    health: Health,
    /// Thread id and the two sums of each thread.
    threads: BTreeMap<String, [u64; 3]>,
}

impl Run {
    /// Runs the program in a mode, profiled on the triggers that `triggers` returns for its path.
    fn new(mode: &str, triggers: impl FnOnce(&Path) -> Vec<Trigger>) -> Run {
        Run::on(mode, None, triggers)
    }

    /// As [`new`](Run::new), on a file or device.
    fn on(mode: &str, data: Option<&Path>, triggers: impl FnOnce(&Path) -> Vec<Trigger>) -> Run {
        let path = build(mode);
        let mut command = Command::new(&path);
        let data = data.map_or(path.with_extension("data"), Path::to_owned);
        command.arg(mode).arg(data).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        let builder =
            triggers(&path).into_iter().fold(Profiler::builder(), |builder, trigger| builder.on(trigger));
        let builder = builder.pid(child.id()).ring_size(16 << 20).deadline(Duration::from_secs(120));
        let profiler =
            builder.unwind(ebpf_profiler_unwind::tables()).start().unwrap_or_else(|error| panic!("{error}"));
        writeln!(child.stdin.as_mut().unwrap()).unwrap();
        let threads = lines.take_while(|line| line != "end").map(|line| {
            let mut parts = line.split(' ');
            let name = parts.next().unwrap().to_owned();
            (name, [(); 3].map(|()| parts.next().unwrap().parse().unwrap()))
        });
        let threads = threads.collect();
        let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        Run { profile, health, threads }
    }

    /// Returns the sum of the values of the samples of kind number `kind` that `is_wanted` accepts.
    fn sum(&self, kind: usize, is_wanted: impl Fn(&Sample<'_>) -> bool) -> u64 {
        let profile = self.profile.of_kind(kind);
        profile.samples().filter(|sample| is_wanted(sample)).map(|sample| sample.value()).sum()
    }
}

/// Returns a folder for one test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("events/spans").join(test);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Builds the program for one test.
fn build(test: &str) -> PathBuf {
    let flags = ["-O1", "-g", "-fno-optimize-sibling-calls", "-pthread"];
    compile::program(&format!("events/spans/{test}"), "events/programs/spans.c", &flags)
}

/// Returns `true` if the stack of a sample has these functions in a row, the root first.
fn has_chain(sample: &Sample<'_>, known: &[&str]) -> bool {
    chain(sample).windows(known.len()).any(|part| part == known)
}
