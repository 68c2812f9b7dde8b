//! Cost of a Java virtual machine with many compiled methods: attaching to it, naming its methods,
//! and memory.
//!
//! ```text
//! $ cargo bench -p benches --bench jvm -- --methods 20000 --java target/fixtures/jdk-25/bin/java
//! methods  named  attaching ms  cold µs  warm ns  cold / warm  names MiB
//! methods  languages  start ms  peak MiB
//! ```
//!
//! This program runs itself as the measured one, for each figure in turns with a virtual machine of
//! 20 such methods.
//!
//! * The first table is of the profiler's `Registry`, which gets a frame of each compiled method of
//!   the process, as the kernel side sends it: unknown (cold), and again (warm). Times are CPU
//!   times.
//! * The second one is of a whole profiler, without symbols, and of one that has no languages. Its
//!   start includes attaching to the process.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

#[path = "../../ebpf-profiler-hll/tests/blobs/mod.rs"]
mod blobs;

mod naming;

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use benches::options::{option, want_root};
use benches::program::Running;
use benches::report::{median, print, row};
use benches::usage::{now, peak_memory};
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::symbol::NoSymbols;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Number of methods of the small virtual machine.
const SMALL_METHODS: usize = 20;

/// Samples a second, so that most methods are sampled.
const HERTZ: u32 = 4999;

const MIB: f64 = 1048576.0;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1..).unwrap_or_default() {
        [mode, pid, methods] if mode == "name" => name(pid.parse()?, methods.parse()?),
        [mode, pid, seconds, has_names] if mode == "profile" => {
            profile(pid.parse()?, seconds.parse()?, has_names == "true")
        }
        _ => bench(),
    }
}

fn bench() -> Outcome {
    want_root("jvm");
    let (methods, seconds) = (option("methods", 20000), option("seconds", 5.0));
    let machines = [SMALL_METHODS, methods].map(|methods| start(methods).map(|it| (methods, it)));
    let machines: Vec<(usize, Running)> = machines.into_iter().collect::<Outcome<_>>()?;
    let (mut names, mut profilers) = ([const { Vec::new() }; 2], [const { Vec::new() }; 4]);
    for _ in 0..option("rounds", 3) {
        for (at, (methods, machine)) in machines.iter().enumerate() {
            let pid = machine.pid().to_string();
            names[at].push(figures::<6>(&["name", &pid, &methods.to_string()])?);
            for (side, has_names) in ["false", "true"].into_iter().enumerate() {
                let profiled = figures::<2>(&["profile", &pid, &seconds.to_string(), has_names])?;
                profilers[2 * at + side].push(profiled);
            }
        }
    }
    let mut table =
        vec![row(["methods", "named", "attaching ms", "cold µs", "warm ns", "cold / warm", "names MiB"])];
    for ((methods, _), rounds) in machines.iter().zip(&names) {
        table.push([vec![methods.to_string()], medians(rounds)].concat());
    }
    print(&table);
    println!();
    let mut table = vec![row(["methods", "languages", "start ms", "peak MiB"])];
    for (side, rounds) in profilers.iter().enumerate() {
        let cells = row([&machines[side / 2].0.to_string(), ["none", "all"][side % 2]]);
        table.push([cells, medians(rounds)].concat());
    }
    print(&table);
    Ok(())
}

/// Returns the medians of the rounds of each figure.
fn medians<const COUNT: usize>(rounds: &[[f64; COUNT]]) -> Vec<String> {
    let of = |column| median(&rounds.iter().map(|round| round[column]).collect::<Vec<_>>());
    (0..COUNT).map(|column| format!("{:.1}", of(column))).collect()
}

/// Starts a virtual machine that compiles each method before it is run, and waits until all are
/// compiled.
fn start(methods: usize) -> Outcome<Running> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("classes");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/Many.java");
    let status = Command::new("javac").args(["--release", "11", "-d"]).arg(&folder).arg(source).status()?;
    if !status.success() {
        return Err(format!("javac: {status}").into());
    }
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/fixtures/jdk-17/bin/java");
    let mut command = Command::new(option("java", fixture.to_owned()));
    command.args(["-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Many$Part*::*"]);
    // Inlined methods would be no compiled methods of their own.
    command.args(["m*", "burn"].map(|apart| format!("-XX:CompileCommand=dontinline,Many$Part*::{apart}")));
    command.args(["-XX:ReservedCodeCacheSize=240m", "-cp"]).arg(folder).args(["Many", &methods.to_string()]);
    Ok(Running::ready(&mut command)?)
}

/// Runs this program in another mode and returns the figures that it prints.
fn figures<const COUNT: usize>(arguments: &[&str]) -> Outcome<[f64; COUNT]> {
    let output = Command::new(std::env::current_exe()?).args(arguments).stderr(Stdio::inherit()).output()?;
    let said = String::from_utf8(output.stdout)?;
    let figures = said.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    Ok(figures.try_into().map_err(|_| format!("{arguments:?} failed"))?)
}

/// Names the methods of a process and prints the figures.
fn name(pid: u32, methods: usize) -> Outcome {
    let named = naming::name(pid, methods)?;
    let each = |time: Duration| time.as_nanos() as f64 / named.methods.max(1) as f64;
    let (cold, warm) = (each(named.cold), each(named.warm));
    let (attaching, memory) = (named.attaching.as_secs_f64() * 1e3, named.memory as f64 / MIB);
    println!("{} {attaching} {} {warm} {} {memory}", named.methods, cold / 1e3, cold / warm);
    Ok(())
}

/// Profiles a process in this one, and prints its figures.
fn profile(pid: u32, seconds: f64, has_names: bool) -> Outcome {
    let languages = if has_names { ebpf_profiler_hll::all() } else { Vec::new() };
    let builder = Profiler::builder().frequency(HERTZ).pid(pid).unwind(ebpf_profiler_unwind::tables());
    let begun = now();
    let profiler = builder.symbolizer(NoSymbols).languages(languages).start()?;
    let started = (now() - begun) as f64 / 1e6;
    sleep(Duration::from_secs_f64(seconds));
    profiler.take_profile()?;
    println!("{started} {}", peak_memory()? as f64 / MIB);
    Ok(())
}
