//! Processes that send life events at full speed, beside an ordinary one.
//!
//! The profiler runs in a control group with a memory limit, where the machine has one that can be
//! made: what it takes in the kernel counts too.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use live_suite::paths::example;
use live_suite::selection::is_matrix;

use crate::scratch::{NOBODY, ORDINARY, Process, Scratch, give_to_nobody};

/// Maximum memory of the profiler in bytes.
const MEMORY: u64 = 100 << 20;

/// Seconds that are sampled.
pub(crate) const SECONDS: u64 = 4;

/// Time that the profiler may take for them, with its start and the names.
const DEADLINE: Duration = Duration::from_secs(SECONDS + 20);

/// Processes of the attack with many mappings.
pub(crate) const FORKS: usize = 40;

#[test]
#[ignore = "needs root"]
fn code_that_is_remapped_at_full_speed_costs_no_other_program() {
    test_needs::root!();
    let scratch = Scratch::new("remap");
    let program = compile(&scratch, "remap");
    let attacker = Process::start(Command::new(program).uid(NOBODY));
    let profile = profile(&scratch, SECONDS);
    drop(attacker);
    profile.require_ordinary();
}

#[test]
#[ignore = "needs root"]
fn forks_with_65000_mappings_of_a_long_path_fit_into_the_memory() {
    test_needs::root!();
    let scratch = Scratch::new("mappings");
    let program = compile(&scratch, "mappings");
    let folder = scratch.path("");
    let mut attacker = Process::start(
        Command::new(program).args([&folder, &FORKS.to_string()]).uid(NOBODY).process_group(0),
    );
    ready(&mut attacker);
    let profile = profile(&scratch, SECONDS);
    end_group(&attacker);
    profile.require_ordinary();
}

#[test]
#[ignore = "needs root"]
fn processes_that_fork_with_many_mappings_while_sampled_fit_into_the_memory() {
    test_needs::root!();
    let scratch = Scratch::new("forking");
    let program = compile(&scratch, "mappings");
    let folder = scratch.path("");
    let mut command = Command::new(program);
    command.args([&folder, &FORKS.to_string()]).uid(NOBODY).process_group(0);
    let mut attacker = None;
    let profile = profile_with(&scratch, SECONDS, MEMORY, || attacker = Some(Process::start(&mut command)));
    end_group(&attacker.unwrap());
    profile.require_ordinary();
}

#[test]
#[ignore = "needs root"]
fn endless_short_programs_leave_nothing_behind() {
    test_needs::root!();
    let scratch = Scratch::new("lives");
    let program = compile(&scratch, "lives");
    let folder = scratch.path("");
    let attackers: Vec<_> =
        (0..2).map(|_| Process::start(Command::new(&program).arg(&folder).uid(NOBODY))).collect();
    let seconds = if is_matrix() { 20 } else { 10 };
    let profile = profile(&scratch, seconds);
    drop(attackers);
    profile.require_ordinary();
    // While it samples, ten times a second; naming comes behind that.
    let most =
        |from: u64, to: u64| profile.memory[from as usize..to as usize].iter().copied().max().unwrap_or(0);
    let (early, late) = (most(seconds * 2, seconds * 4), most(seconds * 7, seconds * 9));
    assert!(late <= early + (8 << 20), "{} MiB, then {} MiB", early >> 20, late >> 20);
}

#[test]
#[ignore = "needs root"]
fn a_runtime_mapped_16000_times_costs_no_other_program() {
    test_needs::root!();
    let scratch = Scratch::new("runtimes");
    let program = compile(&scratch, "runtimes");
    let Some(runtime) = copy_of_runtime(&scratch) else { return };
    let mut attacker = Process::start(Command::new(program).arg(runtime).uid(NOBODY));
    ready(&mut attacker);
    let profile = profile(&scratch, SECONDS);
    drop(attacker);
    profile.require_ordinary();
}

#[test]
#[ignore = "needs root"]
fn stacks_that_never_repeat_are_cut_in_their_process_alone() {
    test_needs::root!();
    let scratch = Scratch::new("stacks");
    let program = compile(&scratch, "stacks");
    let attacker = Process::start(Command::new(program).uid(NOBODY));
    // As many samples as at 97 Hz in two minutes.
    let profile = profile_at(2999, &[], &scratch, SECONDS, 2 * MEMORY + MEMORY / 2, || {});
    drop(attacker);
    profile.require_ordinary();
    let of_attacker = profile.folded.lines().filter(|line| line.starts_with("stacks;"));
    let (cut, other): (Vec<_>, Vec<_>) =
        of_attacker.partition(|line| line.contains("[truncated: too many different stacks]"));
    eprintln!("{} cut, {} other", cut.len(), other.len());
    assert!(cut.iter().any(|line| line.contains("leaf")), "{cut:#?}");
    assert!(other.iter().any(|line| line.contains(";main;")));
}

#[test]
#[ignore = "needs root"]
fn a_file_with_the_build_id_of_another_does_not_replace_it() {
    test_needs::root!();
    let scratch = Scratch::new("build_id");
    let id = "-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233";
    let build = |name: &str, flags: &[&str]| {
        let program = scratch.compile(Path::new(ORDINARY), &[&[id], flags].concat());
        let path = scratch.path(name);
        fs::rename(program, &path).unwrap();
        path
    };
    let victim = build("victim", &["-O1"]);
    let forger = build("forger", &["-O0", "-Dfirst=forged", "-Dspin=forged_too", "-fno-omit-frame-pointer"]);
    give_to_nobody(&forger);
    let mut attacker = Process::start(Command::new(forger).uid(NOBODY));
    ready(&mut attacker);
    let mut started = None;
    let profile = profile_with(&scratch, SECONDS, MEMORY, || {
        started = Some(Process::start(Command::new("nice").args(["-n", "-10", &victim])));
    });
    drop((attacker, started));
    let lines = |name| profile.folded.lines().filter(move |line: &&str| line.starts_with(name));
    assert!(lines("forger;").any(|line| line.contains(";main;forged;second;third;forged_too")));
    assert!(
        lines("victim;").any(|line| line.contains(";main;first;second;third;spin")),
        "{}",
        profile.folded
    );
    let wrong = lines("victim;").find(|line| line.contains("forged") || line.contains("[truncated"));
    assert_eq!(wrong, None);
}

/// Copies a Python that contains its interpreter to where nobody can read it. `None` without a
/// Python.
pub(crate) fn copy_of_runtime(scratch: &Scratch) -> Option<String> {
    let program = "import os, sys; print(os.path.realpath(sys.executable))";
    let output = Command::new("python3").args(["-c", program]).output().ok()?;
    let path = scratch.path("python");
    fs::copy(String::from_utf8(output.stdout).ok()?.trim(), &path).ok()?;
    Some(path)
}

/// A profile of the machine, with an ordinary program on it.
pub(crate) struct Profile {
    pub(crate) folded: String,
    said: String,
    /// Process ids of the profiler, and of its broker if there is one.
    pub(crate) pids: BTreeSet<u32>,
    /// Resident bytes, ten times a second.
    pub(crate) memory: Vec<u64>,
    /// Open file descriptors, ten times a second.
    pub(crate) descriptors: Vec<u64>,
}

impl Profile {
    /// Requires that 99.9 % of the samples of the ordinary program are whole, and that there are
    /// such.
    pub(crate) fn require_ordinary(&self) {
        let (mut all, mut whole, mut other) = (0, 0, Vec::new());
        for line in self.folded.lines().filter(|line| line.starts_with("ordinary;")) {
            let Some((stack, count)) = line.rsplit_once(' ') else { continue };
            let count: u64 = count.parse().unwrap();
            all += count;
            if stack.contains(";main;first;second;third;spin") && !stack.contains("[truncated") {
                whole += count;
            } else if !stack.contains(";first") && !stack.contains("[truncated") {
                // Between two turns, or before main.
                whole += count;
            } else {
                other.push(line);
            }
        }
        eprintln!("ordinary: {whole} of {all} stacks whole; {}", self.said);
        eprintln!("resident: {} MiB at most", self.memory.iter().max().unwrap_or(&0) >> 20);
        // Few on a busy machine, where the profiler may be late to read its samples.
        assert!(all > 5, "{}; {}", self.said, self.folded);
        assert!(whole * 1000 >= all * 999, "{whole} of {all}: {other:#?}");
    }
}

pub(crate) fn profile(scratch: &Scratch, seconds: u64) -> Profile {
    profile_with(scratch, seconds, MEMORY, || {})
}

/// As [`profile`], with a broker, and confined threads.
pub(crate) fn profile_separately(scratch: &Scratch, seconds: u64) -> Profile {
    profile_at(97, &["--broker", "--confine"], scratch, seconds, MEMORY, || {})
}

/// Profiles the machine with an ordinary program on it, with at most `limit` bytes of memory. Calls
/// `start` when the profiler has begun.
pub(crate) fn profile_with(scratch: &Scratch, seconds: u64, limit: u64, start: impl FnOnce()) -> Profile {
    profile_at(97, &[], scratch, seconds, limit, start)
}

/// As [`profile_with`], with `hertz` samples a second and CPU and further options. The words of the variable
/// `HOSTILE_OPTIONS` are options, too.
fn profile_at(
    hertz: u32,
    options: &[&str],
    scratch: &Scratch,
    seconds: u64,
    limit: u64,
    start: impl FnOnce(),
) -> Profile {
    // Attackers run beside it in large numbers; its share of the processors is not what is tested.
    let program = compile(scratch, "ordinary");
    let mut ordinary = Process::start(Command::new("nice").args(["-n", "-10"]).arg(program));
    ready(&mut ordinary);
    let output = scratch.path("x.folded");
    let group = Group::new(limit);
    let seconds = seconds.to_string();
    let mut command = Command::new("sh");
    // The shell enters the group before it becomes the profiler.
    command.args(["-c", "[ -z \"$1\" ] || echo $$ >\"$1\"; shift; exec \"$@\"", "sh", &group.procs()]);
    command.arg(example("flamegraph"));
    command.args(["--seconds", &seconds, "--frequency", &hertz.to_string(), "--output", &output]);
    let further = std::env::var("HOSTILE_OPTIONS").unwrap_or_default();
    command.args(options).args(further.split_ascii_whitespace());
    let begun = Instant::now();
    let mut profiler = Process::start(&mut command);
    std::thread::sleep(Duration::from_millis(700));
    start();
    let (mut memory, mut descriptors) = (Vec::new(), Vec::new());
    let mut pids = BTreeSet::from([profiler.0.id()]);
    let deadline = DEADLINE + Duration::from_secs(seconds.parse::<u64>().unwrap() - SECONDS);
    while profiler.0.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < deadline, "no end within {deadline:?}");
        memory.push(resident(profiler.0.id()));
        pids.extend(children(profiler.0.id()));
        descriptors.push(open_descriptors(profiler.0.id()));
        std::thread::sleep(Duration::from_millis(100));
    }
    let most = memory.iter().copied().max().unwrap_or(0);
    assert!(most <= limit, "{} MiB", most >> 20);
    let ended = profiler.output();
    assert!(ended.status.success(), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stdout);
    let said = said.lines().find(|line| line.contains(" samples, ")).unwrap_or_default().to_owned();
    let peak = group.peak().map_or_else(|| "no group".to_owned(), |peak| format!("{} MiB", peak >> 20));
    Profile {
        folded: fs::read_to_string(output).unwrap(),
        said: format!("{said}; group {peak}"),
        pids,
        memory,
        descriptors,
    }
}

/// Returns the processes that a process started.
fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// A control group with a memory limit; `None` if none can be made.
struct Group(Option<PathBuf>);

impl Group {
    fn new(bytes: u64) -> Group {
        let name = format!("hostile-{}-{:?}", std::process::id(), std::thread::current().id());
        let make = |root: &str, limit: &str| {
            let path = Path::new(root).join(&name);
            fs::create_dir(&path).ok()?;
            let group = Group(Some(path.clone()));
            let mut limit = fs::OpenOptions::new().write(true).open(path.join(limit)).ok()?;
            limit.write_all(bytes.to_string().as_bytes()).ok()?;
            Some(group)
        };
        make("/sys/fs/cgroup", "memory.max")
            .or_else(|| make("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))
            .unwrap_or(Group(None))
    }

    fn procs(&self) -> String {
        self.0.as_ref().map_or_else(String::new, |path| path.join("cgroup.procs").display().to_string())
    }

    fn peak(&self) -> Option<u64> {
        let path = self.0.as_ref()?;
        let read = |name| fs::read_to_string(path.join(name)).ok()?.trim().parse().ok();
        read("memory.peak").or_else(|| read("memory.max_usage_in_bytes"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_dir(path);
        }
    }
}

pub(crate) fn compile(scratch: &Scratch, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile").join(format!("{name}.c"));
    let program = scratch.compile(&source, &["-O1"]);
    let named = scratch.0.join(name);
    fs::rename(program, &named).unwrap();
    named
}

/// Waits until a program says that it is ready.
pub(crate) fn ready(process: &mut Process) {
    let mut line = String::new();
    let mut said = BufReader::new(process.0.stdout.as_mut().unwrap());
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

/// Ends a process and what it forked.
pub(crate) fn end_group(process: &Process) {
    let group = format!("-{}", process.0.id());
    assert!(Command::new("kill").args(["-s", "KILL", "--", &group]).status().unwrap().success());
}

fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

fn open_descriptors(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64)
}
