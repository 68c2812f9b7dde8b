//! Stacks of each kind of samples against gdb's, and against the interpreter's for a script.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Builder, Trigger};
use ebpf_profiler_core::profile::{Profile, Sample};

use crate::tracefs;
use crate::workload::chain;
use live_suite::workload::steps::{Running, build};

/// Turns of both programs, with an event of each kind in each.
const TURNS: u64 = 400;

#[test]
#[ignore = "needs root"]
fn stacks_of_each_kind_are_those_of_gdb() {
    test_needs::root!();
    test_needs::programs!("gcc", "gdb");
    tracefs::mount().unwrap();
    let path = build("chains", "gcc", "kinds.c", "kinds", &[]);
    let file = path.display();
    let kinds = [
        ("off-cpu".to_owned(), "nap"),
        ("futex".to_owned(), "lock_in_vain"),
        ("malloc".to_owned(), "allocate"),
        ("malloc-live:1".to_owned(), "allocate"),
        ("page-faults".to_owned(), "touch"),
        (format!("uprobe:{file}:call"), "call"),
        (format!("uprobe:{file}:call:time"), "act"),
        (format!("uretprobe:{file}:call"), "act"),
        ("block-latency".to_owned(), "load"),
        ("block-io".to_owned(), "load"),
        ("tracepoint:syscalls:sys_enter_write".to_owned(), "store"),
    ];
    let mut program = Running::start(&mut Command::new(&path));
    let profile = profile(kinds.iter().map(|(on, _)| on.as_str()), &mut program, |builder| builder);
    for (number, (on, function)) in kinds.iter().enumerate() {
        let expected = gdb(&path, function);
        check(&profile, number, on, function, &expected, |names| {
            let from = names.iter().position(|name| name == "main");
            let to = names.iter().rposition(|name| name == function);
            from.zip(to).and_then(|(from, to)| names.get(from..=to)).unwrap_or_default().to_vec()
        });
    }
}

/// Asserts that all turns have the expected chain, and 99.9 % of all samples in a function.
#[track_caller]
fn check(
    profile: &Profile,
    kind: usize,
    on: &str,
    function: &str,
    expected: &[String],
    part: impl Fn(&[String]) -> Vec<String>,
) {
    let (mut all, mut right, mut wrong) = (0, 0, Vec::new());
    let profile = profile.of_kind(kind);
    for sample in profile.samples() {
        let names = names(&sample);
        if !names.iter().any(|name| name == function) {
            continue;
        }
        all += sample.count();
        if part(&names) == expected {
            right += sample.count();
        } else {
            wrong.push(names);
        }
    }
    println!("{on}: {right} of {all} samples in {function} have its chain");
    assert!(right * 1000 >= all * 999, "{on}: {expected:?}, but {wrong:?}");
    // On a busy machine a timer may expire before the thread sleeps, and of the latencies one in 1,000
    // is missing.
    let least = match on {
        "off-cpu" => TURNS * 98 / 100,
        "block-latency" => TURNS * 995 / 1000,
        _ => TURNS,
    };
    assert!(right >= least, "{on}: {right} of {TURNS}");
}

/// Returns the functions of a sample without their arguments, from root to leaf.
fn names(sample: &Sample<'_>) -> Vec<String> {
    chain(sample).into_iter().map(|name| name.split('(').next().unwrap_or_default().to_owned()).collect()
}

fn profile<'a>(
    kinds: impl Iterator<Item = &'a str>,
    program: &mut Running,
    with: impl FnOnce(Builder) -> Builder,
) -> Profile {
    let builder = kinds.fold(Profiler::builder(), |builder, on| builder.on(on.parse::<Trigger>().unwrap()));
    let builder = with(builder.pid(program.child.id()).ring_size(64 << 20));
    let builder = builder.unwind(ebpf_profiler_unwind::tables()).deadline(Duration::from_secs(120));
    let profiler = builder.start().unwrap_or_else(|error| panic!("{error}"));
    program.step("end");
    let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    // Waits that end by a switch which the kernel hides are lost.
    assert!(health.lost * 1000 <= health.ticks && health.pipeline.malformed == 0, "{health:?}");
    profile
}

/// Returns the functions from `main` to `function`, where gdb stops in it.
///
/// ```text
///   #1  0x0000555555555555 in act (turn=0) at kinds.c:70
/// ```
fn gdb(program: &Path, function: &str) -> Vec<String> {
    let stop = format!("break {function}");
    let commands =
        ["-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", &stop, "-ex", "run", "-ex", "bt"];
    let output = Command::new("gdb").args(commands).arg("--args").arg(program).arg("once").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = |line: &str| {
        let mut words = line.strip_prefix('#')?.split_ascii_whitespace().skip(1);
        let first = words.next()?;
        Some(if first.starts_with("0x") { words.nth(1)? } else { first }.to_owned())
    };
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.reverse();
    assert_eq!(names.first().map(String::as_str), Some("main"), "{text}");
    names
}

/// Stacks of interpreters.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn stacks_of_a_script_are_those_of_its_interpreter() {
        const KINDS: [(&str, &str); 5] = [
            ("off-cpu", "nap"),
            ("malloc", "allocate"),
            ("malloc-live:1", "allocate"),
            ("page-faults", "touch"),
            ("tracepoint:syscalls:sys_enter_write", "store"),
        ];
        test_needs::root!();
        tracefs::mount().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/events/programs/kinds.py");
        let (mut program, chains) = Running::start_after(Command::new("/usr/bin/python3").arg(script));
        let languages = |builder: Builder| builder.languages(ebpf_profiler_hll::all());
        let profile = profile(KINDS.iter().map(|(on, _)| *on), &mut program, languages);
        let own: Vec<&str> = chains.iter().flat_map(|chain| chain.split(';')).collect();
        for (number, (on, function)) in KINDS.iter().enumerate() {
            let expected = chains.iter().find(|chain| chain.ends_with(&format!(";{function}"))).unwrap();
            let expected: Vec<String> = expected.split(';').map(str::to_owned).collect();
            // Native functions of the interpreter are between those of the script.
            check(&profile, number, on, function, &expected, |names| {
                names.iter().filter(|name| own.contains(&name.as_str())).cloned().collect()
            });
        }
    }
}
