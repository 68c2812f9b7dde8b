//! Takes samples at events of an eBPF program that aya loads: stacks by the number of bytes that
//! they write.
//!
//! ```text
//! sudo target/release/own_program --seconds 5
//! ```
//!
//! The program is `examples/own_program/src/main.rs`.

use std::fs;
use std::io::stdout;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aya::programs::raw_trace_point::RawTracePointLinkId;
use aya::programs::{ProgramError, RawTracePoint};
use aya::{Ebpf, EbpfLoader};
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{OwnPrograms, ProgramType, Trigger};
use ebpf_profiler_core::profile::Unit;
use ebpf_profiler_core::sink::folded;
use examples::{Options, Usage, explain_start_error, fail, notice_interrupts, say, sleep_until_interrupted};

const USAGE: Usage = Usage {
    about: "own_program: stacks of write calls, by bytes, from an eBPF program that aya loads",
    options: &[
        ("pid", "PID", "process to profile (all)"),
        ("pins", "DIR", "new folder of a BPF file system (/sys/fs/bpf/own_program)"),
        ("seconds", "N", "duration (5)"),
    ],
    arguments: "",
};

/// The compiled program.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../own_program/written.x86_64.o");

/// Name of the kind of its samples.
const KIND: &str = "written";

fn main() {
    let options = Options::parse(USAGE);
    notice_interrupts();
    let duration = options.seconds("seconds").unwrap_or(Duration::from_secs(5));
    let mut builder = Profiler::builder()
        .on(Trigger::own(KIND, Unit::Bytes, ProgramType::RawTracepoint))
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all());
    if let Some(pid) = options.one("pid") {
        builder = builder.pid(pid);
    }
    let profiler = builder.start().unwrap_or_else(|error| fail(explain_start_error(&error)));

    let pins: PathBuf = options.get("pins", "/sys/fs/bpf/own_program".into());
    let program = attach(profiler.own_programs(), &pins);
    // The loaded program holds the maps.
    let _ = fs::remove_dir_all(&pins);
    let program = program.unwrap_or_else(|error| fail(error));
    say("attached");

    sleep_until_interrupted(Instant::now() + duration, || true);
    drop(program);
    let (profile, health) = profiler.finish().unwrap_or_else(|error| fail(error));
    if let Err(error) = folded::write(&profile, &mut stdout().lock()) {
        fail(format!("cannot print: {error}"));
    }
    let bytes: u64 = profile.samples().map(|sample| sample.value()).sum();
    say(format_args!("{} calls, {bytes} bytes, {} lost", profile.count(), health.lost));
}

/// Loads the program with the maps of the profiler, and attaches it.
fn attach(own: &OwnPrograms, pins: &Path) -> Result<Ebpf, String> {
    own.pin(pins).map_err(|error| {
        let (pins, mount) = (pins.display(), "mount -t bpf bpf /sys/fs/bpf");
        format!("cannot pin maps in {pins}: {error}; it must be new, in a BPF file system: {mount}")
    })?;
    let kind = own.kind(KIND).ok_or("the profiler has no such kind")?;
    let mut loader = EbpfLoader::new();
    loader.default_map_pin_directory(pins).override_global("KIND", &kind, true);
    let mut ebpf = loader.load(OBJECT).map_err(|error| format!("cannot load the object: {error}"))?;
    let program = ebpf.program_mut("written").ok_or("the object has no such program")?;
    let mut attach = || -> Result<RawTracePointLinkId, ProgramError> {
        let program: &mut RawTracePoint = program.try_into()?;
        program.load()?;
        program.attach("sys_enter")
    };
    attach().map_err(|error| format!("cannot attach the program: {error}"))?;
    Ok(ebpf)
}
