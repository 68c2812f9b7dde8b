//! Cost of large machines in user space, simulated: CPU time of a sample and memory, over CPUs,
//! processes, lives and files.
//!
//! ```text
//! $ cargo bench -p benches --bench scale
//! $ cargo bench -p benches --bench scale -- --seconds 60
//! ```
//!
//! Needs no privileges. The profiler's `Pipeline` and `Registry` take generated events of a
//! machine: 97 samples a second and CPU, of processes with 15 executable mappings in containers
//! with files of their own; processes that begin, map six files and end. Files are this program and
//! its libraries, with real unwind tables. The kernel's map of processes is simulated with its
//! capacity: a sample of a process that is not published comes as a raw one. Reading `/proc` costs
//! nothing here; its reads are counted.
//!
//! | column | |
//! | --- | --- |
//! | raw | share of the samples that are unwound in user space |
//! | whole | share of the samples with whole stacks |
//! | first, steady | CPU time of the pipeline for a sample, life events included: in the first 2 s, and the median batch afterwards |
//! | CPU | share of one CPU, afterwards |
//! | heap | maximum of allocated memory, without the arena |
//! | arena | unwind tables and mappings |
//! | reads | `/proc/PID/maps`, in the whole run |
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

mod heap;

mod machine;

mod stream;

use std::error::Error;
use std::time::Duration;

use benches::options::option;
use benches::report::{median, print, row};
use benches::usage::on_cpu;
use ebpf_profiler_core::Limits;
use ebpf_profiler_core::internal::pipeline::{Clock, Pipeline};
use ebpf_profiler_core::internal::registry::Registry;
use ebpf_profiler_core::internal::tables::MemoryTables;
use ebpf_profiler_core::profile::{SampleKind, Unit};
use machine::{KernelTables, Machine, Shape};
use stream::{BATCHES, Stream};

#[global_allocator]
static HEAP: heap::Counted = heap::Counted;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Batches of the first 2 s.
const FIRST: usize = 2 * BATCHES as usize;

fn main() -> Outcome {
    let usual = Shape { cpus: 256, processes: 1_000, lives: 0, containers: 20, is_foreign: false };
    let seconds: u32 = option("seconds", 8);
    curve("CPUs", seconds, &[2, 32, 256].map(|cpus| (cpus, Shape { cpus, ..usual })))?;
    curve(
        "processes",
        seconds,
        &[1_000, 5_000, 20_000].map(|processes| (processes, Shape { processes, ..usual })),
    )?;
    let lively = |lives| (lives, Shape { cpus: 32, lives, ..usual });
    curve("lives a second", seconds, &[0, 100, 1_000].map(lively))?;
    let large = Shape { processes: 5_000, ..usual };
    let held = |containers| (containers, Shape { containers, ..large });
    curve("containers", seconds, &[5, 50, 500].map(held))?;
    let foreign = |containers| (containers, Shape { containers, is_foreign: true, ..large });
    curve("containers of other users", seconds, &[5, 50, 500].map(foreign))?;
    let machines = [(2, 200), (16, 1_250), (64, 5_000), (256, 20_000)].map(|(cpus, processes)| {
        let (lives, containers) = (processes / 20, processes / 40);
        (cpus, Shape { cpus, processes, lives, containers, ..usual })
    });
    curve("CPUs, 78 processes each", seconds, &machines)?;
    stacks(&[2, 32, 256].map(|cpus| Shape { cpus, ..usual }))
}

/// Returns the entries of the kernel's map of processes on a machine of this size.
fn published(cpus: u32) -> usize {
    (cpus as usize * 256).clamp(1 << 14, 1 << 16).next_power_of_two()
}

/// Figures of one machine.
struct Cost {
    samples: u64,
    raw: f64,
    whole: f64,
    first: f64,
    steady: f64,
    cpu: f64,
    heap: usize,
    arena: u64,
    reads: u64,
    exceeding: u64,
}

fn pipeline(machine: &Machine, kinds: u16) -> Pipeline {
    let period = Duration::from_secs(1) / 97;
    let tables = KernelTables(MemoryTables::default(), machine.clone());
    let compiler = Box::new(ebpf_profiler_unwind::tables());
    let mut registry = Registry::new(Box::new(machine.clone()), Box::new(tables), Some(compiler), 1 << 30);
    let mut limits = Limits::default();
    limits.processes = limits.processes.max(2 * published(machine.shape.cpus));
    limits.regions = limits.regions.max(16 * published(machine.shape.cpus));
    registry.set_limits(limits);
    let mut pipeline = Pipeline::new(registry, Clock::default(), period);
    let kinds = (0..kinds).map(|kind| match kind {
        0 => SampleKind::cpu(period),
        1 => SampleKind::new("off-cpu", Unit::Nanoseconds),
        _ => SampleKind::new("allocated", Unit::Bytes),
    });
    pipeline.set_kinds(kinds.collect());
    pipeline
}

/// Runs a machine for a time, with three kinds of samples.
fn run(shape: Shape, seconds: u32) -> Outcome<Cost> {
    let machine = Machine::new(shape)?;
    let mut stream = Stream::new(machine.clone());
    stream.kinds = 3;
    let before = heap::now();
    let mut pipeline = pipeline(&machine, 3);
    pipeline.registry().scan();
    heap::take_peak();
    let (mut first, mut later) = ((Duration::ZERO, 0), Vec::new());
    let mut total = Duration::ZERO;
    for number in 0..(seconds * BATCHES).max(FIRST as u32 + 1) as usize {
        let mut batch = stream.next();
        let samples = batch.ticks().count();
        let begun = on_cpu();
        pipeline.take(&mut batch);
        let took = on_cpu() - begun;
        if number < FIRST {
            first = (first.0 + took, first.1 + samples);
        } else {
            total += took;
            later.push(took.as_nanos() as f64 / samples as f64 / 1e3);
        }
    }
    let stats = pipeline.stats();
    let arena = stats.registry.table_bytes;
    let heap = heap::take_peak().saturating_sub(before + arena as usize);
    drop(pipeline.finish());
    let of_samples = |count: u64| 100.0 * count as f64 / stats.samples.max(1) as f64;
    Ok(Cost {
        samples: stats.samples,
        raw: of_samples(stats.raw),
        whole: of_samples(stats.whole),
        first: first.0.as_nanos() as f64 / first.1 as f64 / 1e3,
        steady: median(&later),
        cpu: 100.0 * total.as_secs_f64() / (later.len() as f64 / f64::from(BATCHES)),
        heap,
        arena,
        reads: machine.reads(),
        exceeding: stats.registry.exceeding,
    })
}

/// Prints the figures over one size, and the factors between its smallest and its largest value.
fn curve(name: &str, seconds: u32, shapes: &[(u32, Shape)]) -> Outcome {
    let mut rows = vec![row([
        name,
        "samples",
        "raw",
        "whole",
        "first µs",
        "steady µs",
        "CPU",
        "heap MiB",
        "arena MiB",
        "reads",
        "exceeding",
    ])];
    let mut costs = Vec::new();
    for (value, shape) in shapes {
        let cost = run(*shape, seconds)?;
        rows.push(row([
            &value.to_string(),
            &cost.samples.to_string(),
            &format!("{:.1} %", cost.raw),
            &format!("{:.1} %", cost.whole),
            &format!("{:.2}", cost.first),
            &format!("{:.2}", cost.steady),
            &format!("{:.1} %", cost.cpu),
            &mebibytes(cost.heap),
            &mebibytes(cost.arena as usize),
            &cost.reads.to_string(),
            &cost.exceeding.to_string(),
        ]));
        costs.push(cost);
    }
    if let ([first, ..], [.., last]) = (&costs[..], &costs[..]) {
        let ratio = |of: fn(&Cost) -> f64| format!("x {:.2}", of(last) / of(first).max(f64::MIN_POSITIVE));
        let steady = ratio(|cost| cost.steady);
        let [heap, arena] = [ratio(|cost| cost.heap as f64), ratio(|cost| cost.arena as f64)];
        let first = ratio(|cost| cost.first);
        rows.push(row(["slope", "", "", "", &first, &steady, "", &heap, &arena, "", ""]));
    }
    print(&rows);
    println!();
    Ok(())
}

/// Prints the memory of stacks that never repeat.
fn stacks(shapes: &[Shape]) -> Outcome {
    let mut rows = vec![row(["CPUs, no stack repeats", "samples", "whole", "heap MiB"])];
    for &shape in shapes {
        let machine = Machine::new(shape)?;
        let mut stream = Stream::new(machine.clone());
        stream.is_unique = true;
        let before = heap::now();
        let mut pipeline = pipeline(&machine, 1);
        heap::take_peak();
        while pipeline.stats().samples < UNIQUE {
            pipeline.take(&mut stream.next());
        }
        let stats = pipeline.stats();
        let heap = heap::take_peak().saturating_sub(before + stats.registry.table_bytes as usize);
        let whole = 100.0 * stats.whole as f64 / stats.samples as f64;
        rows.push(row([
            &shape.cpus.to_string(),
            &stats.samples.to_string(),
            &format!("{whole:.1} %"),
            &mebibytes(heap),
        ]));
    }
    print(&rows);
    Ok(())
}

/// Samples of stacks that never repeat: 40 s of 256 CPUs.
const UNIQUE: u64 = 1_000_000;

fn mebibytes(bytes: usize) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}
