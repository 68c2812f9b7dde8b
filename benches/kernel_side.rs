//! What one tick costs in the kernel: walking by unwind tables, against the kernel's own walk by frame pointers.
//!
//! ```text
//! $ cargo bench -p benches --bench kernel_side -- --hertz 997 --rounds 5 [--depth 10]
//! depth  ours ns  kernel ns  ratio  ...
//! ```
//!
//! Ours samples `spin` built without frame pointers; the other side calls `bpf_get_stackid` twice, for the
//! kernel's and the user's stack, in `spin` built with them. Both run in turns on the same clock.
//!
//! `spin` wherever the profiler looks would be a few ticks among those of everything else, so its own clock
//! stands nearly still here, and clocks on the threads of `spin` run its program.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use benches::bpf::{StackIds, Statistics, sampler, time_of_run};
use benches::options::{option, want_root};
use benches::program::{Running, build};
use benches::report::{least, median, print, row};
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::StopError;
use ebpf_profiler_core::profile::TraceView;
use ebpf_profiler_core::symbol::NoSymbols;
use ebpf_profiler_core::trace::Frame;

const DEPTHS: [u32; 4] = [10, 50, 120, 300];

/// More frames than the deepest stack has.
const MAX_STACK: u32 = 512;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    want_root("kernel_side");
    let bench = Bench {
        hertz: option("hertz", 997),
        window: Duration::from_secs_f64(option("seconds", 1.0)),
        with: build("spin", true, env!("CARGO_TARGET_TMPDIR"))?,
        without: build("spin", false, env!("CARGO_TARGET_TMPDIR"))?,
    };
    let rounds = option("rounds", 5);
    let _statistics = Statistics::enable()?;
    let _deep = DeepStacks::allow();
    println!("{} Hz, {rounds} rounds\n", bench.hertz);
    let mut table = vec![row([
        "depth",
        "ours ns",
        "kernel ns",
        "ratio",
        "least/least",
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

/// One turn of ours.
struct Turn {
    nanoseconds: f64,
    frames: usize,
    samples: u64,
    whole: u64,
}

impl Bench {
    /// Both sides in turns; a row of the table.
    fn depth(&self, depth: u32, rounds: u32) -> Outcome<Vec<String>> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let (mut frames, mut their_frames, mut samples, mut whole) = (0, 0, 0, 0);
        for _ in 0..rounds {
            let turn = self.ours(depth)?;
            ours.push(turn.nanoseconds);
            frames = frames.max(turn.frames);
            samples += turn.samples;
            whole += turn.whole;
            let (nanoseconds, deepest) = self.theirs(depth)?;
            theirs.push(nanoseconds);
            their_frames = their_frames.max(deepest);
        }
        // Where the kernel didn't walk to the end, there is nothing to compare.
        let ratio = |ours: f64, theirs: f64| {
            if their_frames >= depth as usize { format!("{:.2}", ours / theirs) } else { "-".to_owned() }
        };
        Ok(vec![
            depth.to_string(),
            format!("{:.0}", median(&ours)),
            format!("{:.0}", median(&theirs)),
            ratio(median(&ours), median(&theirs)),
            ratio(least(&ours), least(&theirs)),
            frames.to_string(),
            their_frames.to_string(),
            format!("{:.2} %", 100.0 * whole as f64 / samples.max(1) as f64),
            samples.to_string(),
        ])
    }

    fn ours(&self, depth: u32) -> Outcome<Turn> {
        let spin = Running::spin(&self.without, depth)?;
        let profiler = Profiler::builder()
            .frequency(1)
            .pid(spin.pid())
            .unwind(ebpf_profiler_unwind::tables())
            .symbolizer(NoSymbols)
            .start()?;
        let nanoseconds = time_of_run(sampler()?, &spin.threads()?, self.hertz, self.window, || {
            profiler.snapshot().map(drop)
        })?;
        let before = profiler.health().pipeline;
        let profile = profiler.snapshot()?;
        let after = profiler.health().pipeline;
        Ok(Turn {
            nanoseconds,
            frames: profile.traces().map(|trace| user_frames(&trace)).max().unwrap_or(0),
            samples: after.samples - before.samples,
            whole: after.whole - before.whole,
        })
    }

    fn theirs(&self, depth: u32) -> Outcome<(f64, usize)> {
        let spin = Running::spin(&self.with, depth)?;
        let walk = StackIds::load(MAX_STACK).or_else(|_| StackIds::load(127))?;
        let warm = || Ok::<_, StopError>(());
        let nanoseconds = time_of_run(walk.program(), &spin.threads()?, self.hertz, self.window, warm)?;
        Ok((nanoseconds, walk.deepest()))
    }
}

fn user_frames(trace: &TraceView<'_>) -> usize {
    trace.frames().filter(|frame| !matches!(frame.frame(), Frame::Kernel { .. })).count()
}

/// The kernel's walk ends after `kernel.perf_event_max_stack` frames, 127 unless somebody said otherwise: more
/// for as long as this is held.
struct DeepStacks(Option<String>);

impl DeepStacks {
    const SETTING: &str = "/proc/sys/kernel/perf_event_max_stack";

    fn allow() -> DeepStacks {
        let before = fs::read_to_string(Self::SETTING).ok();
        // Where that fails, the column of its frames tells.
        let set = Self::set(&MAX_STACK.to_string());
        DeepStacks(before.filter(|_| set))
    }

    /// Refused while anybody looks at stacks; a program of our own goes a moment after it is closed.
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
