//! Cost of a whole profiler, from its start to a file of named stacks, compared with `perf record
//! -g`.
//!
//! ```text
//! $ cargo bench -p benches --bench whole_profiler -- --seconds 30 --rounds 3
//! ```
//!
//! This program runs itself as the measured profiler, so that the figures of CPU time and memory
//! exclude the bench.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use benches::bpf::{descriptors, fd_field};
use benches::options::{option, want_root};
use benches::program::{Running, build};
use benches::report::{median, print, row};
use benches::usage;
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Builder;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::File;
use ebpf_profiler_core::symbol::NoSymbols;

const HERTZ: u32 = 97;
const DEPTH: u32 = 50;
const MEBI: f64 = 1048576.0;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1..).unwrap_or_default() {
        [mode, seconds, file] if mode == "profile" => profile(seconds.parse()?, file),
        [mode] if mode == "start" => start(),
        _ => bench(),
    }
}

fn bench() -> Outcome {
    want_root("whole_profiler");
    let spin = build("spin", false, env!("CARGO_TARGET_TMPDIR"))?;
    let mut table = vec![row(["", "median", "all", "goal"])];
    {
        let _busy = Running::spin(&spin, DEPTH)?;
        compare(&mut table, option("seconds", 30), option("rounds", 3))?;
        starts(&mut table, option("starts", 11))?;
    }
    for milliseconds in [30, 100] {
        brief(&mut table, milliseconds, HERTZ, option("lives", 300))?;
    }
    brief(&mut table, 30, 997, option("lives", 300))?;
    print(&table);
    Ok(())
}

/// Runs the profiler and `perf record` in turns.
fn compare(table: &mut Vec<Vec<String>>, seconds: u32, rounds: u32) -> Outcome {
    let (mut ours, mut theirs, mut said) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (cpu, figures) = profile_once(seconds)?;
        ours.push(cpu.as_secs_f64());
        said.push(figures);
        theirs.push(perf_once(seconds)?.as_secs_f64());
    }
    let all = |name: &str| said.iter().filter_map(|said| said.get(name).copied()).collect::<Vec<f64>>();
    let per = |name: &str, other: &str| -> Vec<f64> {
        all(name).iter().zip(all(other)).map(|(value, other)| value / other.max(1.0)).collect()
    };
    let scaled = |name: &str| all(name).iter().map(|value| value / MEBI).collect::<Vec<f64>>();
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    println!("{HERTZ} Hz, {seconds} s, {rounds} rounds, depth {DEPTH}\n");
    add(table, "CPU s, ours", &ours, "0.12 on a quiet machine");
    add(table, "CPU s, perf record -g", &theirs, "");
    add(table, "CPU, ours / perf record -g", &ratios, "<= 1");
    add(table, "CPU s of ours: to start", &all("start"), "");
    add(table, "CPU s of ours: while it samples", &all("run"), "");
    add(table, "CPU s of ours: to name and write", &all("end"), "");
    add(
        table,
        "CPU us a sample",
        &ours.iter().zip(all("samples")).map(|(cpu, samples)| cpu / samples * 1e6).collect::<Vec<_>>(),
        "",
    );
    add(table, "peak RSS MiB, with symbols", &scaled("peak"), "<= 40");
    add(table, "kernel maps MiB, before tables", &scaled("maps"), "<= 12");
    add(table, "kernel maps MiB, with tables", &scaled("maps_after"), "");
    add(table, "samples", &all("samples"), "");
    add(table, "samples lost", &all("lost"), "0");
    add(
        table,
        "wake-ups a second",
        &all("wakeups").iter().map(|count| count / f64::from(seconds)).collect::<Vec<_>>(),
        "",
    );
    add(table, "ring bytes a sample", &per("bytes", "samples"), "");
    Ok(())
}

fn profile_once(seconds: u32) -> Outcome<(Duration, HashMap<String, f64>)> {
    let file = format!("{}/whole.folded", env!("CARGO_TARGET_TMPDIR"));
    let mut child = Command::new(std::env::current_exe()?)
        .args(["profile", &seconds.to_string(), &file])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut said)?;
    }
    let cpu = usage::wait(child)?;
    let figure =
        |line: &str| Some((line.split_once(' ')?.0.to_owned(), line.split_once(' ')?.1.parse().ok()?));
    Ok((cpu, said.lines().filter_map(figure).collect()))
}

fn perf_once(seconds: u32) -> Outcome<Duration> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("whole.perf");
    let child = Command::new("perf")
        .args(["record", "-q", "-F", &HERTZ.to_string(), "-e", "cpu-clock", "-g", "-a", "-o"])
        .arg(&file)
        .args(["--", "sleep", &seconds.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(usage::wait(child)?)
}

/// Runs the profiler in a separate process, which prints its usage.
fn profile(seconds: u64, file: &str) -> Outcome {
    let profiler = builder(HERTZ).sink(File::new(file)?).start()?;
    let started = usage::all_on_cpu();
    let maps = map_memory()?;
    sleep(Duration::from_secs(seconds));
    let sampled = usage::all_on_cpu();
    let health = profiler.stop()?;
    println!("start {}", started.as_secs_f64());
    println!("run {}", (sampled - started).as_secs_f64());
    println!("end {}", (usage::all_on_cpu() - sampled).as_secs_f64());
    println!("samples {}", health.pipeline.samples);
    println!("lost {}", health.lost);
    println!("wakeups {}", health.wakeups);
    println!("bytes {}", health.bytes);
    println!("maps {maps}");
    println!("maps_after {}", maps + health.pipeline.registry.table_bytes);
    println!("peak {}", usage::peak_memory()?);
    Ok(())
}

fn builder(hertz: u32) -> Builder {
    Profiler::builder().frequency(hertz).unwind(ebpf_profiler_unwind::tables())
}

/// Returns the memory of the maps that this process has open: all but the arena's chunks, which are
/// closed once they are mapped.
fn map_memory() -> Outcome<u64> {
    let mut maps = HashMap::new();
    for fd in descriptors()? {
        if let (Ok(id), Ok(bytes)) = (fd_field(fd, "map_id"), fd_field(fd, "memlock")) {
            maps.insert(id, bytes);
        }
    }
    Ok(maps.values().sum())
}

/// Measures the time from before exec to the first sample in user space.
fn starts(table: &mut Vec<Vec<String>>, count: u32) -> Outcome {
    let mut times = Vec::new();
    let mut loads = Vec::new();
    for _ in 0..count {
        let begin = usage::now();
        let output = Command::new(std::env::current_exe()?).arg("start").output()?;
        let said = String::from_utf8(output.stdout)?;
        let mut said = said.split_whitespace().map(str::parse::<u64>);
        let mut next = || -> Outcome<f64> {
            let at = said.next().ok_or("the profiler didn't start")??;
            Ok(at.saturating_sub(begin) as f64 / 1e6)
        };
        loads.push(next()?);
        times.push(next()?);
    }
    add(table, "start to clocks running, ms", &loads, "");
    add(table, "start to first sample, ms", &times, "<= 100");
    Ok(())
}

/// Starts a profiler; prints the time at which its clocks ran, and of the first sample in user
/// space.
fn start() -> Outcome {
    let profiler = builder(HERTZ).symbolizer(NoSymbols).start()?;
    let running = usage::now();
    while profiler.take_profile()?.count() == 0 {
        sleep(Duration::from_millis(1));
    }
    println!("{running} {}", usage::now());
    Ok(())
}

/// Runs short processes in a row and returns the share of their CPU time that was sampled.
fn brief(table: &mut Vec<Vec<String>>, milliseconds: u32, hertz: u32, lives: u32) -> Outcome {
    let program = build("brief", false, env!("CARGO_TARGET_TMPDIR"))?;
    let profiler = builder(hertz).symbolizer(NoSymbols).start()?;
    sleep(Duration::from_secs(1));
    let (mut pids, mut cpu) = (HashSet::new(), Duration::ZERO);
    for _ in 0..lives {
        let child = Command::new(&program).arg(milliseconds.to_string()).spawn()?;
        pids.insert(child.id());
        cpu += usage::wait(child)?;
    }
    let profile = profiler.take_profile()?;
    let expected = cpu.as_secs_f64() * f64::from(hertz);
    let (seen, whole) = count(&profile, &pids);
    let name = format!("{lives} processes of {milliseconds} ms, {hertz} Hz");
    let percent = |part: u64| [100.0 * part as f64 / expected];
    add(table, &format!("{name}: delivered %"), &percent(seen), ">= 99");
    add(table, &format!("{name}: and whole %"), &percent(whole), ">= 99");
    Ok(())
}

/// Returns the number of samples of processes `pids`, and of whole stacks among them.
fn count(profile: &Profile, pids: &HashSet<u32>) -> (u64, u64) {
    let (mut seen, mut whole) = (0, 0);
    for sample in profile.samples().filter(|sample| pids.contains(&sample.process().pid)) {
        seen += sample.count();
        whole += if sample.trace().is_whole() { sample.count() } else { 0 };
    }
    (seen, whole)
}

fn add(table: &mut Vec<Vec<String>>, name: &str, values: &[f64], goal: &str) {
    let show = |value: f64| if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    let all = values.iter().map(|&value| show(value)).collect::<Vec<_>>().join(" ");
    table.push(vec![name.to_owned(), show(median(values)), all, goal.to_owned()]);
}
