//! Cost of a Java virtual machine with many compiled methods: attaching to it, naming its methods, and memory.
//!
//! ```text
//! $ cargo bench -p benches --bench jvm -- --methods 20000 --java target/fixtures/jdk-25/bin/java
//! methods  start ms  attaching ms  named  µs a name  peak MiB
//! ```
//!
//! This program runs itself as the measured profiler, in turns with a virtual machine of 20 such methods and with a profiler that
//! has no languages. The start includes attaching to the process.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use benches::options::{option, want_root};
use benches::program::Running;
use benches::report::{median, print, row};
use benches::timed::{Timed, Times};
use benches::usage::{now, peak_memory};
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::language::Language;
use ebpf_profiler_core::symbol::NoSymbols;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Number of methods of the small virtual machine.
const FEW: u32 = 20;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1..).unwrap_or_default() {
        [mode, pid, seconds, has_names] if mode == "profile" => {
            profile(pid.parse()?, seconds.parse()?, has_names == "true")
        }
        _ => bench(),
    }
}

fn bench() -> Outcome {
    want_root("jvm");
    let (methods, seconds) = (option("methods", 20000), option("seconds", 20.0));
    let mut table =
        vec![row(["methods", "languages", "start ms", "attaching ms", "named", "µs a name", "peak MiB"])];
    let machines = [FEW, methods].map(|methods| start(methods).map(|it| (methods, it)));
    let machines: Vec<(u32, Running)> = machines.into_iter().collect::<Outcome<_>>()?;
    let sides: Vec<(&(u32, Running), bool)> =
        machines.iter().flat_map(|machine| [(machine, false), (machine, true)]).collect();
    let mut figures = vec![Vec::new(); sides.len()];
    for _ in 0..option("rounds", 3) {
        for (((_, machine), has_names), figures) in sides.iter().zip(&mut figures) {
            figures.push(round(machine, seconds, *has_names)?);
        }
    }
    for (((methods, _), has_names), figures) in sides.iter().zip(&figures) {
        let mut cells = row([&methods.to_string(), if *has_names { "all" } else { "none" }]);
        for column in 0..5 {
            let values: Vec<f64> = figures.iter().map(|round: &[f64; 5]| round[column]).collect();
            cells.push(format!("{:.1}", median(&values)));
        }
        table.push(cells);
    }
    print(&table);
    Ok(())
}

/// Starts a virtual machine that compiles each method before it is run, and waits until all are compiled.
fn start(methods: u32) -> Outcome<Running> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("classes");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/Many.java");
    let status = Command::new("javac").args(["--release", "11", "-d"]).arg(&folder).arg(source).status()?;
    if !status.success() {
        return Err(format!("javac: {status}").into());
    }
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/fixtures/jdk-17/bin/java");
    let mut command = Command::new(option("java", fixture.to_owned()));
    command.args(["-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Many$Part::*"]);
    // A method that is inlined has no samples of its own name.
    command.arg("-XX:CompileCommand=dontinline,Many$Part::*");
    command.args(["-XX:ReservedCodeCacheSize=240m", "-cp"]).arg(folder).args(["Many", &methods.to_string()]);
    Ok(Running::ready(&mut command)?)
}

/// Runs the profiler once and returns what it prints.
fn round(machine: &Running, seconds: f64, has_names: bool) -> Outcome<[f64; 5]> {
    let arguments = ["profile", &machine.pid().to_string(), &seconds.to_string(), &has_names.to_string()];
    let output = Command::new(std::env::current_exe()?).args(arguments).stderr(Stdio::inherit()).output()?;
    let said = String::from_utf8(output.stdout)?;
    let figures = said.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    Ok(figures.try_into().map_err(|_| "the profiler failed")?)
}

/// Profiles a process in this one, and prints its figures.
fn profile(pid: u32, seconds: f64, has_names: bool) -> Outcome {
    let times = Arc::new(Mutex::new(Times::default()));
    let timed = |language| Box::new(Timed::new(times.clone(), language)) as Box<dyn Language>;
    let languages = if has_names { ebpf_profiler_hll::all() } else { Vec::new() };
    let builder = Profiler::builder().frequency(997).pid(pid).unwind(ebpf_profiler_unwind::tables());
    let builder =
        builder.symbolizer(NoSymbols).languages(languages.into_iter().map(timed).collect::<Vec<_>>());
    let begun = now();
    let profiler = builder.start()?;
    let started = (now() - begun) as f64 / 1e6;
    sleep(Duration::from_secs_f64(seconds));
    profiler.take_profile()?;
    let times = *times.lock().unwrap_or_else(PoisonError::into_inner);
    let name = times.naming.as_secs_f64() * 1e6 / f64::from(times.functions.max(1));
    let attaching = times.attaching.as_secs_f64() * 1e3;
    println!("{started} {attaching} {} {name} {}", times.functions, peak_memory()? as f64 / 1048576.0);
    Ok(())
}
