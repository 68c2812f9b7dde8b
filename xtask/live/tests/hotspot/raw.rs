//! The number of samples that are sent as copies of stacks: only those of a process that begins,
//! and of one whose virtual machine is awaited.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;

use live_suite::compile;
use live_suite::process::Process;

use crate::machine::{Machine, compile};

/// Samples a second.
const FREQUENCY: u32 = 499;

/// Duration of a phase.
const PHASE: Duration = Duration::from_millis(2500);

/// Most raw samples of a process whose virtual machine is awaited, and of the beginnings of
/// processes.
const MAX_RAW_SAMPLES: u64 = 2 * 1024 + 200;

/// Samples of a phase: all, and those that were sent raw.
#[derive(Debug)]
struct Phase {
    samples: u64,
    raw: u64,
}

impl Phase {
    /// Returns `true` if hardly any sample was raw.
    fn is_walked(&self) -> bool {
        self.samples >= 50 && self.raw * 100 <= self.samples
    }
}

/// Checks the samples of a program without a virtual machine, before one starts on the machine and
/// after that.
pub(crate) fn check_plain_program() {
    let profiler = profiler();
    let plain = program(&[]);
    next_phase(&profiler);
    let before = next_phase(&profiler);
    let java = java();
    let start = next_phase(&profiler);
    let after = next_phase(&profiler);
    println!("before {before:?}, start of a virtual machine {start:?}, after {after:?}");
    drop((plain, java));
    assert!(before.is_walked() && after.is_walked(), "{before:?} {after:?}");
    // Those of the machine that starts; the plain program runs all the time.
    assert!(start.raw <= MAX_RAW_SAMPLES && start.samples > start.raw, "{start:?}");
}

/// Checks the samples of a program that loads a virtual machine's library and never starts a
/// machine.
pub(crate) fn check_library_without_machine(machine: &Machine) {
    let library = machine.java.parent().unwrap().join("../lib/server/libjvm.so");
    let profiler = profiler();
    let program = program(&[&library]);
    let start = next_phase(&profiler);
    let mut last = next_phase(&profiler);
    let mut raw = start.raw + last.raw;
    for _ in 0..2 {
        last = next_phase(&profiler);
        raw += last.raw;
    }
    println!("{raw} raw samples, {} of {} in the last phase", last.raw, last.samples);
    drop(program);
    assert!(raw <= MAX_RAW_SAMPLES, "{raw} raw samples");
    assert!(last.is_walked(), "{last:?}");
}

/// Profiles this process and the children that it will have.
fn profiler() -> Profiler {
    Profiler::builder()
        .deadline(Duration::from_secs(60))
        .frequency(FREQUENCY)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .pid(std::process::id())
        .start()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Counts the samples of the next phase.
fn next_phase(profiler: &Profiler) -> Phase {
    let counts = |phase: Duration| {
        std::thread::sleep(phase);
        profiler.take_profile().unwrap();
        let pipeline = profiler.health().pipeline;
        [pipeline.samples, pipeline.raw]
    };
    let [samples, raw] = counts(Duration::ZERO);
    let after = counts(PHASE);
    Phase { samples: after[0] - samples, raw: after[1] - raw }
}

/// Starts `programs/awaited.c`.
fn program(arguments: &[&Path]) -> Process {
    Process::start(Command::new(build()).args(arguments))
}

fn java() -> Process {
    let mut command = Command::new("java");
    command.arg("-cp").arg(compile()).args(["Chains", "recursion", "1", "60"]);
    Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Compiles `programs/awaited.c`.
fn build() -> PathBuf {
    compile::program("hotspot", "hotspot/programs/awaited.c", &["-O1", "-ldl"])
}
