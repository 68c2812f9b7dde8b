//! Cost of a sample in the kernel: unwinding by tables, compared with the kernel's walk by frame
//! pointers.
//!
//! ```text
//! $ cargo bench -p benches --bench kernel_side -- --rounds 20 [--depth 10]
//! depth  ours ns  kernel ns  ratio  half of them  ...
//! ```
//!
//! Ours samples `spin` built without frame pointers; the other side calls `bpf_get_stackid` twice,
//! for the kernel's and the user's stack, in `spin` built with them. Both run in short alternating
//! rounds, so a pair of rounds sees the same load of the machine; the ratio is the median of all
//! pairs.
//!
//! Under the profiler's clock, samples of `spin` would be few among those of other processes. That
//! clock is nearly stopped here, and clocks on the threads of `spin` run its program.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

use std::error::Error;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;
use std::{fs, io};

use benches::bpf::{StackIds, Statistics, Ticking, sampler};
use benches::options::{option, want_root};
use benches::program::{Running, build};
use benches::report::{median, print, quartiles, row};
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::TraceView;
use ebpf_profiler_core::symbol::NoSymbols;
use ebpf_profiler_core::trace::Frame;

const DEPTHS: [u32; 4] = [10, 50, 120, 300];

/// Maximum number of frames; the deepest stack has fewer.
const MAX_STACK: u32 = 512;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    want_root("kernel_side");
    let bench = Bench {
        hertz: option("hertz", 997),
        window: Duration::from_secs_f64(option("seconds", 0.25)),
        with: build("spin", true, env!("CARGO_TARGET_TMPDIR"))?,
        without: build("spin", false, env!("CARGO_TARGET_TMPDIR"))?,
    };
    let rounds = option("rounds", 20);
    let _statistics = Statistics::enable()?;
    let _deep = DeepStacks::allow();
    println!("{} Hz, {rounds} rounds\n", bench.hertz);
    let mut table = vec![row([
        "depth",
        "ours ns",
        "kernel ns",
        "ratio",
        "half of them",
        "frames",
        "kernel's",
        "whole",
        "samples",
    ])];
    let only = option("depth", 0);
    for depth in DEPTHS.into_iter().filter(|&depth| only == 0 || only == depth) {
        table.push(bench.depth(depth, rounds)?);
    }
    print(&table);
    println!("\ngoal: ratio at most 1.00; whole 100 %");
    Ok(())
}

struct Bench {
    hertz: u32,
    window: Duration,
    with: PathBuf,
    without: PathBuf,
}

impl Bench {
    /// Runs both sides in turns and returns a row of the table.
    fn depth(&self, depth: u32, rounds: u32) -> Outcome<Vec<String>> {
        let mut profiler = None;
        let ours = self.side(&self.without, depth, |pid| {
            profiler = Some(start(pid)?);
            Ok(sampler()?)
        })?;
        let profiler = profiler.ok_or("no profiler")?;
        let walk = StackIds::load(MAX_STACK).or_else(|_| StackIds::load(127))?;
        let theirs = self.side(&self.with, depth, |_| Ok(walk.program()))?;
        // Discards the samples of the warm-up.
        profiler.take_profile()?;
        let before = profiler.health().pipeline;
        let pairs: Vec<(f64, f64)> = (0..rounds)
            .map(|_| Ok((ours.turn(self.window)?, theirs.turn(self.window)?)))
            .collect::<io::Result<_>>()?;
        let profile = profiler.take_profile()?;
        let after = profiler.health().pipeline;
        let (samples, whole) = (after.samples - before.samples, after.whole - before.whole);
        let frames = profile.traces().map(|trace| user_frames(&trace)).max().unwrap_or(0);
        let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let ratios: Vec<f64> = pairs.iter().map(|(ours, theirs)| ours / theirs).collect();
        let (low, high) = quartiles(&ratios);
        // A walk that the kernel did not finish is not comparable.
        let compared = |text: String| if walk.deepest() >= depth as usize { text } else { "-".to_owned() };
        Ok(vec![
            depth.to_string(),
            format!("{:.0}", median(&ours)),
            format!("{:.0}", median(&theirs)),
            compared(format!("{:.2}", median(&ratios))),
            compared(format!("{low:.2} to {high:.2}")),
            frames.to_string(),
            walk.deepest().to_string(),
            format!("{:.2} %", 100.0 * whole as f64 / samples.max(1) as f64),
            samples.to_string(),
        ])
    }

    /// Starts `program` at this depth, paused, with clocks that run what `prepare` loads for its
    /// process.
    fn side(&self, program: &Path, depth: u32, prepare: impl FnOnce(u32) -> Outcome<RawFd>) -> Outcome<Side> {
        let spin = Running::spin(program, depth)?;
        let ticking = Ticking::start(prepare(spin.pid())?, &spin.threads()?, self.hertz)?;
        spin.pause();
        Ok(Side { spin, ticking })
    }
}

/// Starts a profiler of one process whose clock is nearly stopped.
fn start(pid: u32) -> Outcome<Profiler> {
    let builder = Profiler::builder().frequency(1).pid(pid);
    Ok(builder.unwind(ebpf_profiler_unwind::tables()).symbolizer(NoSymbols).start()?)
}

/// A program that is sampled in its rounds.
struct Side {
    ticking: Ticking,
    spin: Running,
}

impl Side {
    /// Returns the nanoseconds per sample in one round.
    fn turn(&self, window: Duration) -> io::Result<f64> {
        /// The first samples find the caches of the other side.
        const SETTLE_TIME: Duration = Duration::from_millis(20);
        self.spin.go_on();
        sleep(SETTLE_TIME);
        let nanoseconds = self.ticking.time_of_run(window);
        self.spin.pause();
        nanoseconds
    }
}

fn user_frames(trace: &TraceView<'_>) -> usize {
    trace.frames().filter(|frame| !matches!(frame.frame(), Frame::Kernel { .. })).count()
}

/// Raises `kernel.perf_event_max_stack`, which ends the kernel's walk after 127 frames by default,
/// until it is dropped.
struct DeepStacks(Option<String>);

impl DeepStacks {
    const SETTING: &str = "/proc/sys/kernel/perf_event_max_stack";

    fn allow() -> DeepStacks {
        let before = fs::read_to_string(Self::SETTING).ok();
        // After a failure the column of its frames shows the limit.
        let set = Self::set(&MAX_STACK.to_string());
        DeepStacks(before.filter(|_| set))
    }

    /// The kernel refuses it while stacks are sampled; a closed program ends with a delay.
    fn set(value: &str) -> bool {
        (0..100).any(|attempt| {
            sleep(Duration::from_millis(if attempt > 0 { 100 } else { 0 }));
            fs::write(Self::SETTING, value).is_ok()
        })
    }
}

impl Drop for DeepStacks {
    fn drop(&mut self) {
        if let Some(before) = &self.0
            && !Self::set(before)
        {
            let (setting, before) = (Self::SETTING, before.trim());
            eprintln!("somebody looks at stacks; when that is over: echo {before} > {setting}");
        }
    }
}
