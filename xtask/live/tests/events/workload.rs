//! The program that counts its own events.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::live::{Builder, Health, Trigger};
use ebpf_profiler_core::profile::{Profile, Sample};
use ebpf_profiler_core::unwind::UnwindCompiler as _;

use live_suite::compile;

use crate::switches::{self, Switches, Waits};
use crate::tracefs;

/// The built program.
pub(crate) struct Program(pub(crate) PathBuf);

/// Number of threads that wait.
pub(crate) const WAITERS: usize = 9;

/// Counts of one thread, by its own word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) tid: u32,
    /// Time before its creation in nanoseconds.
    pub(crate) created: u64,
    /// Time off the CPU in nanoseconds, by the scheduler's statistics.
    pub(crate) off_cpu: u64,
    /// Page faults.
    pub(crate) faults: u64,
}

/// One profiled run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) profile: Profile,
    pub(crate) health: Health,
    pub(crate) threads: BTreeMap<String, Counts>,
    /// The waits of all threads of the machine by number, by the kernel's trace; empty where it
    /// wasn't started.
    pub(crate) waits: BTreeMap<u32, Waits>,
    /// Time that the hypervisor gave to others, of all CPUs, in nanoseconds.
    pub(crate) stolen: u64,
}

impl Program {
    /// Builds the program for one test.
    pub(crate) fn build(test: &str) -> Program {
        let flags = ["-O1", "-g", "-fno-optimize-sibling-calls", "-pthread"];
        Program(compile::program(&format!("events/{test}"), "events/programs/events.c", &flags))
    }

    /// Profiles the threads of `mode` on these triggers.
    pub(crate) fn profile(&self, mode: &str, triggers: &[&str]) -> Run {
        let triggers = triggers.iter().map(|text| text.parse::<Trigger>().unwrap());
        self.profile_with(mode, triggers.fold(Profiler::builder(), Builder::on))
    }

    /// Profiles the threads of `mode` with this profiler.
    pub(crate) fn profile_with(&self, mode: &str, builder: Builder) -> Run {
        self.profile_attached(mode, builder, |_| ())
    }

    /// As [`profile_with`](Program::profile_with), with what `attach` returns held during the work.
    pub(crate) fn profile_attached<T>(
        &self,
        mode: &str,
        builder: Builder,
        attach: impl FnOnce(&Profiler) -> T,
    ) -> Run {
        let trace = (mode == "waits").then(|| {
            tracefs::mount().unwrap();
            Switches::trace().unwrap()
        });
        let (mut child, mut lines) = self.start(mode);
        // Room for all events of a kind: they come within milliseconds.
        let builder = builder.pid(child.id()).ring_size(64 << 20).deadline(Duration::from_secs(120));
        let profiler =
            builder.unwind(ebpf_profiler_unwind::tables()).start().unwrap_or_else(|error| panic!("{error}"));
        let attached = attach(&profiler);
        let stolen = stolen();
        let threads = work(&mut child, &mut lines, mode);
        let (stolen, stop) = (self::stolen() - stolen, switches::now());
        drop(attached);
        let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
        let waits = trace.map(|trace| trace.waits(stop)).unwrap_or_default();
        end(&mut child);
        Run { profile, health, threads, waits, stolen }
    }

    /// Profiles the threads of `mode` by a profiler that runs before the program does. The first
    /// table is ready `delay` after it is needed.
    pub(crate) fn profile_unknown(&self, mode: &str, triggers: &[&str], delay: Duration) -> Run {
        let triggers = triggers.iter().map(|text| text.parse::<Trigger>().unwrap());
        let builder = triggers.fold(Profiler::builder(), Builder::on).deadline(Duration::from_secs(120));
        let (first, tables) = (Once::new(), ebpf_profiler_unwind::tables());
        let compiler = move |elf: &Elf| {
            first.call_once(|| std::thread::sleep(delay));
            tables.compile(elf)
        };
        let profiler = builder.unwind(compiler).start().unwrap_or_else(|error| panic!("{error}"));
        let stolen = stolen();
        let (mut child, mut lines) = self.start(mode);
        let threads = work(&mut child, &mut lines, mode);
        let stolen = self::stolen() - stolen;
        let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
        end(&mut child);
        Run { profile, health, threads, waits: BTreeMap::new(), stolen }
    }

    /// Starts the program, which waits.
    fn start(&self, mode: &str) -> (Child, BufReader<ChildStdout>) {
        let mut command = Command::new(&self.0);
        let mut child = command.arg(mode).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        (child, lines)
    }
}

/// Starts the work and waits for its end. Returns the counts of the threads.
fn work(child: &mut Child, lines: &mut BufReader<ChildStdout>, mode: &str) -> BTreeMap<String, Counts> {
    writeln!(child.stdin.as_mut().unwrap()).unwrap();
    let threads = if mode == "waits" { WAITERS } else { 3 };
    let counts = lines.lines().take(threads).map(|line| {
        let line = line.unwrap();
        let mut parts = line.split(' ');
        let name = parts.next().unwrap().to_owned();
        // A thread that was always on a CPU was off it for a few nanoseconds less than none: these are two
        // clocks.
        let mut number = || parts.next().unwrap().parse::<i64>().unwrap().max(0) as u64;
        (name, Counts { tid: number() as u32, created: number(), off_cpu: number(), faults: number() })
    });
    counts.collect()
}

/// Returns the time that the hypervisor gave to others since boot.
fn stolen() -> u64 {
    const TICK: u64 = 10_000_000;
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let steal = stat.lines().next().unwrap().split_ascii_whitespace().nth(8).unwrap();
    steal.parse::<u64>().unwrap() * TICK
}

fn end(child: &mut Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

impl Run {
    /// Returns the sum of the values of a thread's samples of kind number `kind`, those before it
    /// had its name included.
    pub(crate) fn total(&self, kind: usize, thread: &str) -> u64 {
        let Counts { tid, .. } = self.threads[thread];
        self.sum(kind, |sample| sample.thread().tid == tid)
    }

    /// Returns the number of events of a thread of kind number `kind`.
    pub(crate) fn events(&self, kind: usize, thread: &str) -> u64 {
        let (Counts { tid, .. }, profile) = (self.threads[thread], self.profile.of_kind(kind));
        profile.samples().filter(|sample| sample.thread().tid == tid).map(|sample| sample.count()).sum()
    }

    /// Returns the sum of the values of the samples of kind number `kind` that `is_wanted` accepts.
    pub(crate) fn sum(&self, kind: usize, is_wanted: impl Fn(&Sample<'_>) -> bool) -> u64 {
        let profile = self.profile.of_kind(kind);
        profile.samples().filter(|sample| is_wanted(sample)).map(|sample| sample.value()).sum()
    }

    /// Asserts that no sample was lost.
    #[track_caller]
    pub(crate) fn assert_none_lost(&self) {
        assert_eq!((self.health.lost, self.health.pipeline.malformed), (0, 0), "{:?}", self.health);
        assert_eq!(self.profile.losses().collect::<Vec<_>>(), []);
    }

    /// Asserts that no sample of the program was sent raw: its tables were ready before the first
    /// one.
    #[track_caller]
    pub(crate) fn assert_none_raw(&self) {
        println!("{} of {} samples raw", self.health.pipeline.raw, self.health.pipeline.samples);
        assert_eq!(self.health.pipeline.raw, 0, "{:?}", self.health);
    }

    /// Asserts that at most ten, and 2 of 1,000, waits of the whole machine were lost: an interrupt
    /// can be late on a virtual machine.
    #[track_caller]
    pub(crate) fn assert_few_lost(&self) {
        let Health { lost, ticks, .. } = self.health;
        println!("{lost} of {ticks} waits lost: {:?}", self.profile.losses().collect::<Vec<_>>());
        assert!(lost <= 10 + 2 * ticks / 1_000, "{:?}", self.health);
    }
}

/// Returns the functions of a sample from root to leaf.
pub(crate) fn chain(sample: &Sample<'_>) -> Vec<String> {
    sample.trace().calls().map(|call| call.to_string()).collect()
}
