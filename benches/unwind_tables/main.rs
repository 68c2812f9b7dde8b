//! Cost of unwind tables: building one, compared with gimli's iteration over all rows; a frame,
//! compared with framehop.
//!
//! ```text
//! $ cargo bench -p benches --bench unwind_tables
//! building         gimli ms  table ms  ratio  fresh  instructions    rows  bytes a row  peak over table
//! node                29.14      8.12   0.28   0.52          0.35  277123         4.12         3.2 MB
//! ...
//! a frame, ns      ours  framehop  ratio  cached, ours  framehop
//! node               61       663  0.091            47        13
//! ```
//!
//! By default it measures those of node, libjvm, LLVM, rustc and chromium that exist;
//! `UNWIND_FILES` names others. Each file is measured in a separate process, with a fresh heap.
//!
//! * `ratio` is CPU time of table to that of gimli, both in turns in one process, the fastest call
//!   of each.
//! * `fresh` is the same ratio for processes that do this once: there the kernel's zeroing of new
//!   memory takes as long as the work.
//! * `instructions` is the ratio that callgrind counts, where valgrind is installed; it is the same
//!   on any machine.
//! * Each frame leads from a random address of the code to another one, in the columns `cached` to
//!   one of few; `ours` has no cache.
//! * `peak over table` is the maximum allocated while building, including the sections read, minus
//!   the table.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

use std::error::Error;
use std::fs::File;
use std::process::Command;

use benches::options::option;
use benches::report::{least, print, row};
use benches::usage::wait;
use ebpf_profiler_core::elf::Elf;

mod building;
mod files;
#[path = "../../ebpf-profiler-unwind/tests/peak/mod.rs"]
mod peak;
#[path = "../../ebpf-profiler-unwind/tests/random/mod.rs"]
mod random;
mod walking;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["once", "nothing", file] => open(file).map(drop),
        ["once", "gimli", file] => building::walk(&open(file)?),
        ["once", "table", file] => building::build(&open(file)?),
        ["building", file] => show(&building::measure(&open(file)?)?),
        ["walking", file] => show(&walking::measure(&open(file)?)?),
        ["once" | "building" | "walking", ..] => {
            Err(format!("this bench has no part {}", arguments.join(" ")).into())
        }
        _ => compare(&files::all(), option("rounds", 9)),
    }
}

fn open(file: &str) -> Outcome<Elf> {
    Ok(Elf::open(File::open(file).map_err(|error| format!("{file}: {error}"))?)?)
}

/// Prints the numbers for the parent process.
fn show(numbers: &[f64]) -> Outcome {
    println!("{}", numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
    Ok(())
}

fn compare(files: &[files::Named], rounds: u32) -> Outcome {
    let mut tables = vec![row([
        "building",
        "gimli ms",
        "table ms",
        "ratio",
        "fresh",
        "instructions",
        "rows",
        "bytes a row",
        "peak over table",
    ])];
    let mut frames = vec![row(["a frame, ns", "ours", "framehop", "ratio", "cached, ours", "framehop"])];
    for file in files {
        tables.push(building(file, rounds)?);
        frames.push(walking(file)?);
    }
    print(&tables);
    println!(
        "\ngoal: ratio at most 0.60; at most 4.20 bytes a row; peak at most a tenth of the table and 4 MB more than it\n"
    );
    print(&frames);
    println!("\ngoal: ours at most 60 ns at random addresses");
    Ok(())
}

/// Returns a row of the first table.
fn building(file: &files::Named, rounds: u32) -> Outcome<Vec<String>> {
    let [gimli, table, rows, bytes, peak] = ask(&["building", &file.path])?[..] else {
        return Err("the process that measures said something else".into());
    };
    let ratio = |of: &dyn Fn(&str) -> Option<f64>| {
        let nothing = of("nothing")?;
        Some((of("table")? - nothing) / (of("gimli")? - nothing))
    };
    let shown = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    Ok(vec![
        file.name.clone(),
        format!("{gimli:.2}"),
        format!("{table:.2}"),
        format!("{:.2}", table / gimli),
        shown(ratio(&|side| fresh(side, &file.path, rounds))),
        shown(ratio(&|side| instructions(side, &file.path))),
        rows.to_string(),
        format!("{:.2}", bytes / rows),
        format!("{:.2} MB", peak / 1e6),
    ])
}

/// Returns a row of the second table.
fn walking(file: &files::Named) -> Outcome<Vec<String>> {
    let [ours, framehop, cached, their_cached] = ask(&["walking", &file.path])?[..] else {
        return Err("the process that measures said something else".into());
    };
    let ns = |ns: f64| format!("{ns:.0}");
    let ratio = format!("{:.3}", ours / framehop);
    Ok(vec![file.name.clone(), ns(ours), ns(framehop), ratio, ns(cached), ns(their_cached)])
}

/// Runs this program with other arguments and returns its output.
fn ask(arguments: &[&str]) -> Outcome<Vec<f64>> {
    let output = Command::new(std::env::current_exe()?).args(arguments).output()?;
    if !output.status.success() {
        return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

/// Returns the lowest CPU time of processes that do the work once, in milliseconds.
fn fresh(side: &str, file: &str, rounds: u32) -> Option<f64> {
    let once = || {
        let child = Command::new(std::env::current_exe().ok()?).args(["once", side, file]).spawn().ok()?;
        Some(wait(child).ok()?.as_secs_f64() * 1e3)
    };
    let times: Vec<f64> = (0..rounds).map_while(|_| once()).collect();
    (!times.is_empty()).then(|| least(&times))
}

/// Returns the number of instructions of such a process, counted by callgrind.
fn instructions(side: &str, file: &str) -> Option<f64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let output = valgrind.arg(std::env::current_exe().ok()?).args(["once", side, file]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}
