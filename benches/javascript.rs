//! Cost of JavaScript's frames: in the kernel a sample at several depths, in user space the first naming of a function.
//!
//! ```text
//! $ cargo bench -p benches --bench javascript -- --node target/fixtures/node-26/bin/node
//! code       frames  ns  without ns  ns a further frame  ...
//! code       functions  µs
//! ```
//!
//! As in `scripts`, the same program is sampled in turns by a profiler with the language and by one without, which walks the frames
//! by their frame pointers. A further frame costs the difference of two depths, divided by that of the depths.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

use std::error::Error;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use benches::bpf::{Statistics, Ticking, sampler};
use benches::options::{option, want_root};
use benches::program::Running;
use benches::report::{median, print, row};
use benches::usage::on_cpu;
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{
    Attached, Attachment, Function, Language, Memory, Reason, Runtime, Target,
};
use ebpf_profiler_core::profile::Sample;
use ebpf_profiler_core::symbol::NoSymbols;
use ebpf_profiler_core::trace::Frame;
use ebpf_profiler_hll::v8::V8;

const DEPTHS: [u32; 3] = [20, 100, 300];

/// Kinds of code, with the flags that leave it.
const KINDS: [(&str, &[&str]); 3] = [
    ("interpreted", &["--no-opt", "--no-sparkplug", "--no-maglev"]),
    ("baseline", &["--no-opt", "--always-sparkplug", "--no-maglev"]),
    ("optimized", &["--no-turbo-inlining", "--no-maglev-inlining"]),
];

/// Functions that are named.
const NAMED: u32 = 1000;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    want_root("javascript");
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/fixtures/node-26/bin/node");
    let bench = Bench {
        hertz: option("hertz", 997),
        window: Duration::from_secs_f64(option("seconds", 1.0)),
        node: option("node", fixture.to_owned()),
    };
    let rounds = option("rounds", 5);
    let _statistics = Statistics::enable()?;
    println!("{}, {} Hz, {rounds} rounds\n", bench.node, bench.hertz);
    let heads =
        ["code", "frames", "ns", "without ns", "ns a further frame", "whole with all frames", "samples"];
    let mut table = vec![row(heads)];
    for (kind, flags) in KINDS {
        bench.kind(kind, flags, rounds, &mut table)?;
    }
    print(&table);
    println!();
    bench.naming(rounds)
}

struct Bench {
    hertz: u32,
    window: Duration,
    node: String,
}

/// Result of one round.
struct Turn {
    nanoseconds: f64,
    samples: u64,
    /// Samples with all frames.
    whole: u64,
}

impl Bench {
    /// Adds a row for each depth.
    fn kind(&self, kind: &str, flags: &[&str], rounds: u32, table: &mut Vec<Vec<String>>) -> Outcome {
        let mut shorter: Option<(u32, f64)> = None;
        for depth in DEPTHS {
            let script = Running::node(&self.node, flags, depth, "one")?;
            let (mut with, mut without, mut samples, mut whole) = (Vec::new(), Vec::new(), 0, 0);
            for _ in 0..rounds {
                let turn = self.turn(&script, depth, true)?;
                with.push(turn.nanoseconds);
                samples += turn.samples;
                whole += turn.whole;
                without.push(self.turn(&script, depth, false)?.nanoseconds);
            }
            let (with, without) = (median(&with), median(&without));
            let further = shorter.map_or(String::new(), |(less, before)| {
                format!("{:.0}", (with - before) / f64::from(depth - less))
            });
            shorter = Some((depth, with));
            table.push(vec![
                kind.to_owned(),
                depth.to_string(),
                format!("{with:.0}"),
                format!("{without:.0}"),
                further,
                format!("{:.2} %", 100.0 * whole as f64 / samples.max(1) as f64),
                samples.to_string(),
            ]);
        }
        Ok(())
    }

    fn turn(&self, script: &Running, depth: u32, with: bool) -> Outcome<Turn> {
        let builder = Profiler::builder()
            .frequency(1)
            .pid(script.pid())
            .unwind(ebpf_profiler_unwind::tables())
            .symbolizer(NoSymbols);
        let languages = if with { ebpf_profiler_hll::all() } else { Vec::new() };
        let profiler = builder.languages(languages).start()?;
        let ticking = Ticking::start(sampler()?, &script.threads()?, self.hertz)?;
        // Discards the samples of the warm-up.
        std::thread::sleep(Duration::from_millis(200));
        profiler.take_profile()?;
        let nanoseconds = ticking.time_of_run(self.window)?;
        let profile = profiler.take_profile()?;
        let is_whole = |sample: &Sample<'_>| {
            let frames = sample.trace().frames();
            let scripts = frames.filter(|frame| matches!(frame.frame(), Frame::Script { .. })).count();
            sample.trace().is_whole() && scripts >= depth as usize
        };
        let whole = profile.samples().filter(is_whole).map(|sample| sample.count()).sum();
        Ok(Turn { nanoseconds, samples: profile.count(), whole })
    }

    /// Prints the time in which a function is named first.
    fn naming(&self, rounds: u32) -> Outcome {
        let mut table = vec![row(["code", "functions", "µs"])];
        for (kind, flags) in KINDS {
            let (mut first, mut functions) = (Vec::new(), 0);
            for _ in 0..rounds {
                let script = Running::node(&self.node, flags, NAMED, "each")?;
                let times = Arc::new(Mutex::new(Times::default()));
                let profiler = Profiler::builder()
                    .frequency(997)
                    .pid(script.pid())
                    .unwind(ebpf_profiler_unwind::tables())
                    .symbolizer(NoSymbols)
                    .languages(vec![Box::new(Timed(times.clone(), V8)) as Box<dyn Language>])
                    .start()?;
                std::thread::sleep(Duration::from_millis(500));
                profiler.take_profile()?;
                let times = *times.lock().unwrap_or_else(PoisonError::into_inner);
                functions = times.functions;
                first.push(times.all.as_secs_f64() * 1e6 / f64::from(times.functions.max(1)));
            }
            table.push(vec![kind.to_owned(), functions.to_string(), format!("{:.1}", median(&first))]);
        }
        print(&table);
        Ok(())
    }
}

/// CPU time of naming.
#[derive(Clone, Copy, Default)]
struct Times {
    functions: u32,
    all: Duration,
}

/// A part of a language whose naming is timed.
struct Timed<T>(Arc<Mutex<Times>>, T);

impl Language for Timed<V8> {
    fn name(&self) -> &'static str {
        self.1.name()
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        let runtime = self.1.find(elf)?;
        Some(Box::new(Timed(self.0.clone(), runtime)))
    }

    fn walkers(&self) -> u32 {
        self.1.walkers()
    }
}

impl Runtime for Timed<Box<dyn Runtime>> {
    fn loops(&self) -> &[Range<u64>] {
        self.1.loops()
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        let (walker, code, names) = self.1.attach(target)?.into_parts();
        Ok(Attachment::new(walker, Timed(self.0.clone(), names)).with_code(code))
    }
}

impl Attached for Timed<Box<dyn Attached>> {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let begun = on_cpu();
        let function = self.1.function(address, check, memory)?;
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.functions += 1;
        times.all += on_cpu() - begun;
        Ok(function)
    }
}
