//! Stacks below functions whose returns are probed: by this profiler, and by another one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::live::{Builder, Trigger};
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::trace::Stop;
use ebpf_profiler_core::unwind::UnwindCompiler as _;

use crate::workload::chain;
use live_suite::workload::steps::{Running, build};

const HERTZ: u32 = 4999;

/// The functions below `work`, of which `deep` calls itself.
const CHAINS: [&[&str]; 7] = [
    &["nested", "probed_outer", "between", "probed_inner", "spin_nested", "spin"],
    &["nested", "spin"],
    &["tails", "tail_second", "spin_tail", "spin"],
    &["tails", "tail_first"],
    &["jumps", "plain_after", "spin_plain", "spin"],
    &["jumps", "after_jump", "spin_after", "spin"],
    &["call_hot", "hot"],
];

/// Depth of the recursion of `deep`.
const DEPTH: usize = 40;

/// Functions that run in others, or of the C library: only what calls them is known.
const OPEN: [&[&str]; 2] = [&["jumps"], &["allocate"]];

const TABLES: [&str; 2] = ["-fomit-frame-pointer", "-fno-omit-frame-pointer"];
const NO_TABLES: [&str; 3] =
    ["-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];

#[test]
#[ignore = "needs root"]
fn stacks_below_probed_returns_are_whole() {
    test_needs::root!();
    test_needs::programs!("gcc");
    for flag in TABLES {
        let program = build("returns", "gcc", "returns.c", flag, &[flag]);
        let mut running = Running::start(&mut Command::new(&program));
        let builder = probes(&program).fold(Profiler::builder().on(Trigger::cpu()), Builder::on);
        let profiler = start(builder.pid(running.child.id()));
        running.step("end");
        check(flag, &finish(profiler), 980);
    }
}

#[test]
#[ignore = "needs root"]
fn stacks_below_returns_that_another_probes_are_whole() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = build("returns", "gcc", "returns.c", "other", &[]);
    let mut running = Running::start(&mut Command::new(&program));
    let pid = running.child.id();
    let profiler = start(Profiler::builder().on(Trigger::cpu()).pid(pid));
    let other = start(probes(&program).fold(Profiler::builder(), Builder::on).pid(pid));
    running.step("end");
    finish(other);
    check("another profiler", &finish(profiler), 990);
}

/// The probes of the program's returns, several of some.
fn probes(program: &Path) -> impl Iterator<Item = Trigger> + use<> {
    let program: PathBuf = program.to_owned();
    let of = move |what: &str| format!("{}:{}", program.display(), what);
    let forms = [
        format!("uretprobe:{}", of("probed_outer")),
        format!("uprobe:{}:time", of("probed_inner")),
        format!("uretprobe:{}", of("probed_inner")),
        format!("uretprobe:{}", of("deep")),
        format!("uprobe:{}:time", of("tail_first")),
        format!("uretprobe:{}", of("tail_second")),
        format!("uretprobe:{}", of("jumper")),
        format!("uretprobe:{}", of("after_jump")),
        format!("uprobe:{}:time", of("hot")),
        "malloc-live:1".to_owned(),
    ];
    forms.into_iter().map(|form| form.parse::<Trigger>().unwrap())
}

fn start(builder: Builder) -> Profiler {
    let builder = builder.frequency(HERTZ).deadline(Duration::from_secs(120)).ring_size(64 << 20);
    builder.unwind(ebpf_profiler_unwind::tables()).start().unwrap_or_else(|error| panic!("{error}"))
}

fn finish(profiler: Profiler) -> Profile {
    profiler.finish().unwrap_or_else(|error| panic!("{error}")).0
}

/// Asserts that so many of 1,000 samples of CPU time in `work`, or with a part of a stack, have a
/// known chain.
///
/// The kernel replaces a return address a little before it says so, and returns to the first
/// instruction behind a breakpoint before it goes back to it.
#[track_caller]
fn check(what: &str, profile: &Profile, least: u64) {
    let (mut all, mut right, mut wrong) = (0, 0, Vec::new());
    let is_program = |path: &str| path.contains("/events/returns/");
    let profile = profile.of_kind(0);
    for sample in profile.samples().filter(|sample| is_program(&sample.process().executable)) {
        let names: Vec<String> = chain(&sample)
            .into_iter()
            .map(|name| name.split('(').next().unwrap_or_default().to_owned())
            .collect();
        let is_of_work = names.iter().any(|name| name == "work");
        // A flood of raw samples leaves no room, or no time, for stacks; they say so.
        let is_reduced = matches!(
            sample.trace().stop(),
            Stop::UnknownProcess | Stop::CopyEnds | Stop::Late | Stop::Pending
        );
        if is_reduced || !is_of_work && sample.trace().is_whole() {
            continue;
        }
        all += sample.count();
        if sample.trace().is_whole() && is_known(&names) {
            right += sample.count();
        } else {
            wrong.push((sample.count(), sample.trace().stop(), names));
        }
    }
    wrong.sort_by_key(|(count, ..)| std::cmp::Reverse(*count));
    println!("{what}: {right} of {all} samples are right");
    for line in wrong.iter().take(12) {
        println!("{line:?}");
    }
    assert!(all >= 30 && right * 1000 >= all * least, "{what}: {right} of {all}");
}

/// Returns `true` if the functions below `work` are those of a chain, up to any of its functions.
fn is_known(names: &[String]) -> bool {
    let Some(at) = names.iter().position(|name| name == "work") else { return false };
    if at == 0 || names[at - 1] != "main" {
        return false;
    }
    let below: Vec<&str> = names[at + 1..].iter().map(String::as_str).collect();
    let mut deep = vec!["deep"; DEPTH];
    deep.extend(["spin_deep", "spin"]);
    // Kernel functions follow the program's own.
    let starts = |chain: &[&str]| {
        let own: Vec<&str> = below.iter().copied().filter(|name| is_own(name)).collect();
        chain.starts_with(&own)
    };
    CHAINS.iter().any(|chain| starts(chain))
        || starts(&deep)
        || OPEN
            .iter()
            .any(|chain| below.starts_with(chain) && !below.iter().any(|name| name.contains("spin")))
}

/// Returns `true` for a function of the program.
fn is_own(name: &str) -> bool {
    let is_in = |chain: &[&str]| chain.contains(&name);
    CHAINS.iter().any(|chain| is_in(chain)) || ["deep", "spin_deep", "allocate", "jumper"].contains(&name)
}

/// Other ways to a stack.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn guessed_stacks_below_probed_returns_are_whole() {
        test_needs::root!();
        test_needs::programs!("gcc");
        let program = build("returns", "gcc", "returns.c", "guessed", &NO_TABLES);
        let mut running = Running::start(&mut Command::new(&program));
        let builder = probes(&program).fold(Profiler::builder().on(Trigger::cpu()), Builder::on);
        let profiler = start(builder.pid(running.child.id()));
        running.step("end");
        check("guessed", &finish(profiler), 950);
    }

    #[test]
    #[ignore = "needs root"]
    fn raw_stacks_below_probed_returns_are_whole() {
        test_needs::root!();
        test_needs::programs!("gcc");
        let program = build("returns", "gcc", "returns.c", "raw", &[]);
        let (first, tables) = (Once::new(), ebpf_profiler_unwind::tables());
        let compiler = move |elf: &Elf| {
            first.call_once(|| std::thread::sleep(Duration::from_secs(2)));
            tables.compile(elf)
        };
        let builder =
            Profiler::builder().on(Trigger::cpu()).frequency(199).deadline(Duration::from_secs(120));
        let profiler = builder.unwind(compiler).start().unwrap_or_else(|error| panic!("{error}"));
        // Of another profiler: its samples take nothing of what a process may send raw.
        let other = start(probes(&program).fold(Profiler::builder(), Builder::on));
        let mut running = Running::start(&mut Command::new(&program));
        running.step("end");
        finish(other);
        let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
        println!("{} raw", health.pipeline.raw);
        assert!(health.pipeline.raw > 50, "{health:?}");
        check("raw", &profile, 950);
    }
}
