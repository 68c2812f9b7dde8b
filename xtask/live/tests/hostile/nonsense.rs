//! Programs that claim to be runtimes.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_hll::all;

use crate::processes::{compile, ready};
use crate::scratch::{HANGS, NOBODY, Process, Scratch};
use live_suite::paths::example;

/// Runtimes, each with the name of its language.
const RUNTIMES: &[(&str, &str)] =
    &[("PERL", "perl"), ("PHP", "php"), ("RUBY", "ruby"), ("LUAJIT", "luajit"), ("HOTSPOT", "jvm")];

/// Maximum memory of the profiler in bytes.
const MEMORY: u64 = 100 << 20;

#[test]
#[ignore = "needs root"]
fn runtimes_full_of_nonsense_cost_no_native_frame() {
    test_needs::root!();
    let scratch = Scratch::new("nonsense");
    let mut attackers = Vec::new();
    for (define, language) in RUNTIMES {
        let program = build(&scratch, &format!("fake_{language}"), &[&format!("-D{define}")]);
        let elf = Elf::open(File::open(&program).unwrap()).unwrap();
        let is_found = all().iter().any(|each| each.name() == *language && each.find(&elf).is_some());
        assert!(is_found, "{language} doesn't find its runtime in the fake one");
        attackers.push(start(&program));
    }
    attackers.push(start(&compile(&scratch, "ordinary")));
    let folded = profile(&scratch, &attackers);
    drop(attackers);
    let fakes = RUNTIMES.iter().map(|(_, language)| (format!("fake_{language}"), "main;attack"));
    let ordinary = ("ordinary".to_owned(), "main;first;second;third");
    let failed: Vec<_> = fakes
        .chain([ordinary])
        .filter_map(|(name, chain)| require_frames(&folded, &name, chain).err())
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Profiles programs and returns folded stacks.
fn profile(scratch: &Scratch, programs: &[Process]) -> String {
    let output = scratch.path("x.folded");
    let mut command = Command::new(example("flamegraph"));
    command.args(["--seconds", "6", "--frequency", "97", "--output", &output]);
    for program in programs {
        command.args(["--pid", &program.0.id().to_string()]);
    }
    let (mut profiler, begun, mut peak) = (Process::start(&mut command), Instant::now(), 0);
    while profiler.0.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < HANGS, "the profiler hangs");
        peak = peak.max(profiler.peak_memory());
        std::thread::sleep(Duration::from_millis(50));
    }
    let ended = profiler.output();
    assert!(ended.status.success(), "{ended:?}");
    assert!(peak < MEMORY, "{} MiB", peak >> 20);
    eprintln!("{} MiB of memory, {:.1?}", peak >> 20, begun.elapsed());
    fs::read_to_string(output).unwrap()
}

/// Requires that 99 % of the samples of a program have all native frames: `chain` of its main
/// thread, or those of the thread that writes nonsense.
fn require_frames(folded: &str, name: &str, chain: &str) -> Result<(), String> {
    let (mut all, mut whole, mut other) = (0, 0, Vec::new());
    for line in folded.lines().filter(|line| line.starts_with(&format!("{name};"))) {
        let Some((stack, count)) = line.rsplit_once(' ') else { continue };
        let count: u64 = count.parse().unwrap();
        all += count;
        let is_main = stack.contains(&format!(";_start;__libc_start_main;__libc_start_call_main;{chain}"));
        // Between two turns.
        let is_between = stack.ends_with(";main");
        let is_scribble = stack.contains(";start_thread;scribble");
        match !stack.contains("[truncated") && (is_main || is_between || is_scribble) {
            true => whole += count,
            false => other.push(line),
        }
    }
    eprintln!("{name}: {whole} of {all} stacks whole");
    match all > 5 && whole * 100 >= all * 99 {
        true => Ok(()),
        false => Err(format!("{name}: {whole} of {all}: {other:#?}")),
    }
}

fn build(scratch: &Scratch, name: &str, flags: &[&str]) -> std::path::PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/nonsense.c");
    let program = scratch.compile(&source, &[&["-O1", "-rdynamic", "-pthread"], flags].concat());
    let named = scratch.0.join(name);
    fs::rename(program, &named).unwrap();
    named
}

fn start(program: &Path) -> Process {
    let mut process = Process::start(Command::new(program).uid(NOBODY));
    ready(&mut process);
    process
}
