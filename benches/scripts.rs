//! Cost of script frames: in the kernel a sample with them and without, in user space the first naming of a
//! function.
//!
//! ```text
//! $ cargo bench -p benches --bench scripts -- --python python3.11 --rounds 5
//! frames  with ns  without ns  ns a frame  ...
//! ```
//!
//! `--language php` and `--language perl` take a script of that language, under the interpreter `--interpreter`.
//!
//! The same program is sampled in turns by a profiler with the language and by one without, which walks the native frames
//! only. The profiler's clock is nearly stopped, and a clock on the thread of the script runs its program, as in
//! `kernel_side`.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

use std::error::Error;
use std::time::Duration;

use benches::bpf::{Statistics, Ticking, sampler};
use benches::options::{option, want_root};
use benches::program::Running;
use benches::report::{median, print, row};
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::symbol::NoSymbols;
use ebpf_profiler_core::trace::Frame;

const DEPTHS: [u32; 4] = [3, 20, 100, 300];

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    want_root("scripts");
    let language = option("language", "python".to_owned());
    let (default, script) = match language.as_str() {
        "python" => ("python3", "spin.py"),
        "php" => ("php", "spin.php"),
        "perl" => ("perl", "spin.pl"),
        _ => return Err(format!("no script in {language}").into()),
    };
    let bench = Bench {
        hertz: option("hertz", 997),
        window: Duration::from_secs_f64(option("seconds", 1.0)),
        interpreter: option("interpreter", option("python", default.to_owned())),
        script,
    };
    let rounds = option("rounds", 5);
    let _statistics = Statistics::enable()?;
    println!("{}, {} Hz, {rounds} rounds\n", bench.interpreter, bench.hertz);
    let heads = [
        "frames",
        "with ns",
        "without ns",
        "ns a frame",
        "whole with all frames",
        "samples",
        "unnamed",
        "wake-ups",
    ];
    let mut table = vec![row(heads)];
    for depth in DEPTHS {
        table.push(bench.depth(depth, rounds)?);
    }
    print(&table);
    Ok(())
}

struct Bench {
    hertz: u32,
    window: Duration,
    interpreter: String,
    script: &'static str,
}

/// Result of one round.
struct Turn {
    nanoseconds: f64,
    samples: u64,
    /// Samples with all script frames.
    whole: u64,
    unnamed: u64,
    wakeups: u64,
}

impl Bench {
    fn depth(&self, depth: u32, rounds: u32) -> Outcome<Vec<String>> {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        let (mut samples, mut whole, mut unnamed, mut wakeups) = (0, 0, 0, 0);
        for _ in 0..rounds {
            let turn = self.turn(depth, true)?;
            with.push(turn.nanoseconds);
            samples += turn.samples;
            whole += turn.whole;
            unnamed += turn.unnamed;
            wakeups += turn.wakeups;
            without.push(self.turn(depth, false)?.nanoseconds);
        }
        let (with, without) = (median(&with), median(&without));
        Ok(vec![
            depth.to_string(),
            format!("{with:.0}"),
            format!("{without:.0}"),
            format!("{:.0}", (with - without) / f64::from(depth)),
            format!("{:.2} %", 100.0 * whole as f64 / samples.max(1) as f64),
            samples.to_string(),
            unnamed.to_string(),
            wakeups.to_string(),
        ])
    }

    fn turn(&self, depth: u32, with: bool) -> Outcome<Turn> {
        let script = Running::script(&self.interpreter, self.script, depth)?;
        let builder = Profiler::builder()
            .frequency(1)
            .pid(script.pid())
            .unwind(ebpf_profiler_unwind::tables())
            .symbolizer(NoSymbols);
        let languages = if with { ebpf_profiler_hll::all() } else { Vec::new() };
        let profiler = builder.languages(languages).start()?;
        let ticking = Ticking::start(sampler()?, &script.threads()?, self.hertz)?;
        // Discards the samples of the warm-up.
        profiler.take_profile()?;
        let wakeups = profiler.health().wakeups;
        let nanoseconds = ticking.time_of_run(self.window)?;
        let profile = profiler.take_profile()?;
        let whole = |profile: &Profile| -> u64 {
            let is_whole = |sample: &ebpf_profiler_core::profile::Sample<'_>| {
                let frames = sample.trace().frames();
                let scripts = frames.filter(|frame| matches!(frame.frame(), Frame::Script { .. })).count();
                // `burn` may not have been called yet.
                sample.trace().is_whole() && (depth as usize - 1..=depth as usize).contains(&scripts)
            };
            profile.samples().filter(is_whole).map(|sample| sample.count()).sum()
        };
        let health = profiler.health();
        Ok(Turn {
            nanoseconds,
            samples: profile.count(),
            whole: whole(&profile),
            unnamed: health.pipeline.registry.interpreters.unnamed,
            wakeups: health.wakeups - wakeups,
        })
    }
}
