//! What one tick costs in the kernel: walking by unwind tables, against the kernel's own walk by frame pointers.
//!
//! ```text
//! $ cargo bench -p benches --bench kernel_side -- --hertz 997 --rounds 5
//! depth  ours ns  kernel ns  ratio  ...
//! ```
//!
//! Ours samples `spin` built without frame pointers; the other side calls `bpf_get_stackid` twice, for the
//! kernel's and the user's stack, in `spin` built with them. Both run in turns on the same clock.
//!
//! Our program runs for every tick of a CPU. What ticks of other processes cost it, which it leaves out at
//! once, is measured with nothing but such ticks and taken off; the kernel's walk is attached to the threads of
//! `spin` and has no such ticks. `spin` has priority over most of the machine (`--nice`, -10 if nothing else is
//! said), so that there are few of them.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use benches::bpf::{StackIds, Statistics};
use benches::options::{option, want_root};
use benches::program::{Running, build};
use benches::report::{least, median, print, row};
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Health;
use ebpf_profiler_core::profile::{Profile, TraceView};
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
        nice: option("nice", -10),
        with: build("spin", true, env!("CARGO_TARGET_TMPDIR"))?,
        without: build("spin", false, env!("CARGO_TARGET_TMPDIR"))?,
    };
    let rounds = option("rounds", 5);
    let _statistics = Statistics::enable()?;
    let _deep = DeepStacks::allow();
    let left_out = bench.left_out()?;
    println!("{} Hz, {rounds} rounds; a tick that is left out: {left_out:.0} ns\n", bench.hertz);
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
    for depth in DEPTHS {
        table.push(bench.depth(depth, rounds, left_out)?);
    }
    print(&table);
    println!("\ngoal: ratio at most 1.00; whole 100 %");
    Ok(())
}

struct Bench {
    hertz: u32,
    window: Duration,
    nice: i32,
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
    fn depth(&self, depth: u32, rounds: u32, left_out: f64) -> Outcome<Vec<String>> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let (mut frames, mut their_frames, mut samples, mut whole) = (0, 0, 0, 0);
        for _ in 0..rounds {
            let turn = self.ours(depth, left_out)?;
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

    fn ours(&self, depth: u32, left_out: f64) -> Outcome<Turn> {
        let spin = Running::spin(&self.without, depth, self.nice)?;
        let (before, after, profile) = self.window(spin.pid())?;
        let ran = after.run_time - before.run_time;
        let filtered = after.filtered - before.filtered;
        let wanted = (after.runs - before.runs).saturating_sub(filtered).max(1);
        Ok(Turn {
            nanoseconds: (ran.as_nanos() as f64 - filtered as f64 * left_out) / wanted as f64,
            frames: profile.traces().map(|trace| user_frames(&trace)).max().unwrap_or(0),
            samples: after.pipeline.samples - before.pipeline.samples,
            whole: after.pipeline.whole - before.pipeline.whole,
        })
    }

    fn theirs(&self, depth: u32) -> Outcome<(f64, usize)> {
        let spin = Running::spin(&self.with, depth, self.nice)?;
        let mut walk = StackIds::load(MAX_STACK).or_else(|_| StackIds::load(127))?;
        for tid in spin.threads()? {
            walk.watch(tid, self.hertz)?;
        }
        sleep(warm_up());
        let before = walk.runs()?;
        sleep(self.window);
        let after = walk.runs()?;
        let ran = (after.1 - before.1).as_nanos() as f64;
        Ok((ran / (after.0 - before.0).max(1) as f64, walk.deepest()))
    }

    /// What a tick of a process costs that isn't asked for.
    fn left_out(&self) -> Outcome<f64> {
        let _busy = Running::spin(&self.without, 10, self.nice)?;
        let idle = Idle(Command::new("sleep").arg("1000").spawn()?);
        let (before, after, _) = self.window(idle.0.id())?;
        let runs = (after.filtered - before.filtered).max(1);
        Ok((after.run_time - before.run_time).as_nanos() as f64 / runs as f64)
    }

    /// Profiles process `pid` for a while: how it stood before and after.
    fn window(&self, pid: u32) -> Outcome<(Health, Health, Profile)> {
        let profiler = Profiler::builder()
            .frequency(self.hertz)
            .pid(pid)
            .unwind(ebpf_profiler_unwind::tables())
            .symbolizer(NoSymbols)
            .start()?;
        sleep(warm_up());
        profiler.snapshot()?;
        let before = profiler.health();
        sleep(self.window);
        let profile = profiler.snapshot()?;
        Ok((before, profiler.health(), profile))
    }
}

fn user_frames(trace: &TraceView<'_>) -> usize {
    trace.frames().filter(|frame| !matches!(frame.frame(), Frame::Kernel { .. })).count()
}

/// Until tables are there and caches are warm.
fn warm_up() -> Duration {
    Duration::from_millis(400)
}

/// A child that ends with this.
struct Idle(Child);

impl Drop for Idle {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
        (0..20).any(|attempt| {
            sleep(Duration::from_millis(if attempt > 0 { 100 } else { 0 }));
            fs::write(Self::SETTING, value).is_ok()
        })
    }
}

impl Drop for DeepStacks {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            if !Self::set(before) {
                eprintln!("{} was {} and can't be set back now", Self::SETTING, before.trim());
            }
        }
    }
}
