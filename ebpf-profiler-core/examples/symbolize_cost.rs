//! Measures the cost of names: CPU time and memory for many addresses of one file.
//!
//! ```text
//! cargo run --release --example symbolize_cost -- FILE [ADDRESSES]
//! ```
//!
//! The addresses are spread over `.text`, the same ones in every run. Each line is a step of one
//! process; the last is the same job done by `llvm-symbolizer`, if that is there.
#![expect(clippy::print_stdout, reason = "a command that prints")]

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::symbol::{SymbolOptions, Symbolizer, Symbols};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let count = arguments.next().map_or(Ok(50_000), |count| count.parse())?;
    let addresses = spread(&Elf::open(File::open(&path)?)?, count)?;

    if let Some(step) = arguments.next() {
        return if step == "kernel" { run_kernel(count) } else { run(&step, &path, &addresses) };
    }
    println!("{path}: {} addresses", addresses.len());
    for step in STEPS {
        // A separate process, because a process does not return memory to the system.
        let status =
            Command::new(std::env::current_exe()?).args([&path, &count.to_string(), step]).status()?;
        status.success().then_some(()).ok_or("a step failed")?;
    }
    match llvm(&path, &addresses) {
        Ok(theirs) => println!("llvm-symbolizer: {theirs:?} CPU"),
        Err(error) => println!("llvm-symbolizer: {error}"),
    }
    Ok(())
}

/// `count` addresses of `.text`, ascending.
fn spread(elf: &Elf, count: usize) -> Result<Vec<u64>, Box<dyn Error>> {
    let text = elf.section(".text").ok_or("no .text")?;
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.address + (state >> 33) % text.size
    };
    let mut addresses: Vec<u64> = (0..count).map(|_| next()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

const STEPS: [&str; 4] = ["names", "lines", "inlined", "kernel"];

fn options(step: &str) -> SymbolOptions {
    let mut options = SymbolOptions::default();
    options.lines = step != "names";
    options.inlined = step == "inlined";
    options
}

/// Names all addresses, then some of them again.
fn run(step: &str, path: &str, addresses: &[u64]) -> Result<(), Box<dyn Error>> {
    let mut module = Module::new(path);
    let file = path.to_owned();
    module.opener = Some(Arc::new(move || Ok(Box::new(File::open(&file)?) as Box<dyn ReadAt>)));
    let mut symbols = Symbols::new(options(step));
    let (start, mut functions) = (cpu()?, 0);
    symbols.native(&module, addresses, &mut |_, found| functions += found.len());
    let first = cpu()? - start;
    // The last ones are in the cache still. Wall time, as CPU time is counted in steps of milliseconds.
    let last = &addresses[addresses.len() - addresses.len() / 16..];
    let mut once = || {
        let start = Instant::now();
        symbols.native(&module, last, &mut |_, _| {});
        start.elapsed() / last.len() as u32
    };
    let again = (0..20).map(|_| once()).min().unwrap_or_default();
    let (now, most) = (memory("VmRSS")?, memory("VmHWM")?);
    println!("{step}: {first:?} CPU for {functions} functions, {now} in memory, {most} at most");
    println!("    {again:?} for an address in the cache; {:?}", symbols.stats());
    Ok(())
}

/// Names addresses of the kernel: the first one takes the reading of its list.
fn run_kernel(count: usize) -> Result<(), Box<dyn Error>> {
    let first = 0xffff_ffff_8100_0000;
    let addresses: Vec<u64> = (1..=count as u64).map(|number| first + number * 163).collect();
    let mut symbols = Symbols::default();
    let start = cpu()?;
    symbols.kernel(&[first], &mut |_, _| {});
    let read = cpu()? - start;
    symbols.kernel(&addresses, &mut |_, _| {});
    println!("kernel: {read:?} CPU for the list, {:?} for {count} addresses", cpu()? - start - read);
    println!("    {} in memory, {} at most", memory("VmRSS")?, memory("VmHWM")?);
    Ok(())
}

/// The CPU time of this thread.
fn cpu() -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(text.split_whitespace().next().ok_or("no time")?.parse()?))
}

fn memory(field: &str) -> Result<String, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).ok_or("no memory")?;
    Ok(line.trim_start_matches(':').trim().to_owned())
}

fn llvm(path: &str, addresses: &[u64]) -> Result<Duration, Box<dyn Error>> {
    let before = children()?;
    let mut child = Command::new("llvm-symbolizer")
        .args(["--inlines", &format!("--obj={path}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut input = String::new();
    addresses.iter().try_for_each(|address| writeln!(input, "{address:#x}"))?;
    child.stdin.take().ok_or("no pipe")?.write_all(input.as_bytes())?;
    child.wait()?;
    Ok(children()? - before)
}

/// The CPU time of processes that this one waited for.
fn children() -> Result<Duration, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit_once(')').ok_or("no times")?.1;
    let mut fields = behind_name.split_whitespace().skip(13);
    let mut ticks = || -> Result<u64, Box<dyn Error>> { Ok(fields.next().ok_or("no times")?.parse()?) };
    Ok(Duration::from_millis((ticks()? + ticks()?) * 10))
}
