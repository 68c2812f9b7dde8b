//! What building a table costs, against a bare walk over all rows with gimli: CPU time of both in the same run.
//!
//! ```text
//! $ unwind_time /usr/bin/node
//! /usr/bin/node: gimli 21.9 ms, table 8.7 ms: 0.40, 277509 rows
//! $ valgrind --tool=callgrind unwind_time --once table /usr/bin/node     # or gimli: instructions don't vary
//! ```
#![expect(clippy::print_stdout, reason = "this is what the program is for")]

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::time::{Duration, Instant};

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_unwind::Table;
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindContext, UnwindSection};

/// Each side runs this long at a time, in turns.
const TURN: Duration = Duration::from_millis(150);
const TURNS: u32 = 5;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--once", "gimli", file] => walk(&Elf::open(File::open(file)?)?),
        ["--once", "table", file] => build(&Elf::open(File::open(file)?)?),
        _ => compare(&arguments),
    }
}

fn compare(files: &[String]) -> Outcome {
    for file in files {
        let elf = Elf::open(File::open(file)?)?;
        let (mut theirs, mut ours) = (Duration::MAX, Duration::MAX);
        for _ in 0..TURNS {
            theirs = theirs.min(time(|| walk(&elf))?);
            ours = ours.min(time(|| build(&elf))?);
        }
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        let rows = Table::of(&elf)?.rows().count();
        println!("{file}: gimli {theirs:.2?}, table {ours:.2?}: {ratio:.2}, {rows} rows");
    }
    Ok(())
}

type Outcome = Result<(), Box<dyn Error>>;

/// CPU time of one call, from as many as fit into a turn.
fn time(mut work: impl FnMut() -> Outcome) -> Result<Duration, Box<dyn Error>> {
    let (start, cpu) = (Instant::now(), cpu_time()?);
    let mut calls = 0;
    while start.elapsed() < TURN || calls < 3 {
        work()?;
        calls += 1;
    }
    Ok((cpu_time()? - cpu) / calls)
}

/// The CPU time of this thread. The kernel brings it up to date at every tick and every switch; a turn is long
/// against that.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split(' ').next().unwrap_or_default();
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

fn build(elf: &Elf) -> Outcome {
    black_box(Table::of(elf)?);
    Ok(())
}

/// All rows of all functions, nothing done with them; each CIE is read once.
fn walk(elf: &Elf) -> Outcome {
    let header = elf.section(".eh_frame").ok_or("no .eh_frame")?;
    let data = elf.data(header)?;
    let section = EhFrame::new(&data, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(header.address);
    let mut context = UnwindContext::new();
    let mut cies = HashMap::new();
    let mut entries = section.entries(&bases);
    while let Some(entry) = entries.next()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(|section, bases, offset| {
            cies.entry(offset).or_insert_with(|| section.cie_from_offset(bases, offset)).clone()
        })?;
        let mut rows = fde.rows(&section, &bases, &mut context)?;
        while let Some(row) = rows.next_row()? {
            black_box(row);
        }
    }
    Ok(())
}
