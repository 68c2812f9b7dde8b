//! Profiles with separated privileges: a profiler that may read no process of other users, and a broker.
//!
//! Needs root: `cargo build --package examples`, then
//! `cargo test -p live-suite --test broker -- --ignored --test-threads=1`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod program;

use std::process::Command;
use std::time::Duration;

use live_suite::paths::example;
use program::{Folded, Process, Profiler, Scratch, Status, installed};

/// Options of a profile with separated privileges.
const SEPARATE: [&str; 2] = ["--broker", "--confine"];

/// Bits of CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH and CAP_CHECKPOINT_RESTORE.
const OF_BROKER: u64 = 1 << 19 | 1 << 2 | 1 << 40;

/// Bit of CAP_DAC_OVERRIDE.
const OVERRIDE: u64 = 1 << 1;

/// The words of a command without these capabilities.
const WITHOUT: [&str; 4] = [
    "setpriv",
    "--inh-caps=-sys_ptrace,-dac_read_search,-dac_override,-checkpoint_restore",
    "--bounding-set=-sys_ptrace,-dac_read_search,-dac_override,-checkpoint_restore",
    "--no-new-privs",
];

const PYTHON: &str = "def inner():\n    x = 0\n    for i in range(200000): x += i\n    return x\n\
                      def middle(): return inner() + 1\ndef outer(): return middle() + 1\n\
                      print('ready', flush=True)\nwhile True: outer()\n";

const NODE: &str = "function inner() { let x = 0; for (let i = 0; i < 1e6; i++) x = (x * 3 + i) | 0; return x; }\n\
                    function middle() { return inner() + 1; }\nfunction outer() { return middle() + 1; }\n\
                    console.log('ready');\nfor (;;) outer();\n";

/// Programs of nobody: native code with a perf map, CPython and Node.js.
struct Programs(Vec<Process>);

impl Programs {
    fn start(scratch: &Scratch) -> Programs {
        let owned = Process::of_nobody(&scratch.owned(), &[]);
        let python = Process::of_nobody(&installed("python3"), &[&scratch.script("outer.py", PYTHON)]);
        let node = Process::of_nobody(&installed("node"), &[&scratch.script("outer.js", NODE)]);
        Programs(vec![owned, python, node])
    }

    /// Returns the options that select them.
    fn options(&self) -> Vec<String> {
        self.0.iter().flat_map(|program| ["--pid".to_owned(), program.id().to_string()]).collect()
    }
}

/// A program, and a chain of functions that most of its stacks have.
fn chains(folded: &Folded) -> Vec<(&'static str, &'static str)> {
    let python = folded.0.lines().find(|line| line.starts_with("python3")).unwrap_or("python3;");
    let python = python.split(';').next().unwrap().to_owned().leak();
    let node = if folded.0.lines().any(|line| line.starts_with("node;")) { "node" } else { "MainThread" };
    vec![
        ("owned", "main;first;second;third;spin"),
        ("owned", "main;first;second;third;made_by_owned;leaf;spin"),
        (python, "<module>;outer;middle;inner"),
        (node, "outer;middle;inner"),
    ]
}

fn profile(scratch: &Scratch, name: &'static str, before: &[&str], options: &[&str]) -> Folded {
    let (folded, said, _) = Profiler::start(scratch, name, before, options).end();
    println!("{name}: {}", said.lines().find(|line| line.contains(" samples, ")).unwrap_or_default());
    folded
}

#[test]
#[ignore = "needs root"]
fn programs_of_others_are_whole_and_named_as_without_a_broker() {
    test_needs::root!();
    test_needs::programs!("gcc", "node", "python3");
    let scratch = Scratch::new("same");
    let programs = Programs::start(&scratch);
    let selected = programs.options();
    let options: Vec<&str> =
        ["--seconds", "4"].into_iter().chain(selected.iter().map(String::as_str)).collect();
    let direct = profile(&scratch, "direct", &[], &options);
    let separate = profile(&scratch, "separate", &[], &[&options, &SEPARATE[..]].concat());
    let without = profile(&scratch, "without", &WITHOUT, &options);
    for (program, chain) in chains(&direct) {
        let [direct, separate, without] =
            [&direct, &separate, &without].map(|folded| folded.share(program, chain));
        println!(
            "{program} {chain}: {direct:.3?} direct, {separate:.3?} with a broker, {without:.3?} without"
        );
        if cfg!(not(target_arch = "x86_64")) && chain.contains("made_by_owned") {
            continue;
        }
        assert!(direct.0 > 0.2 && separate.1 > 5, "{}", direct.0);
        assert!(separate.0 > direct.0 - 0.1, "{}", separate.0);
        // Otherwise the broker shows nothing.
        assert!(without.0 < 0.05, "{}", without.0);
    }
}

#[test]
#[ignore = "needs root"]
fn profiler_has_no_privilege_and_broker_three() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let scratch = Scratch::new("privileges");
    let owned = Process::of_nobody(&scratch.owned(), &[]);
    let options = ["--seconds", "3", "--pid", &owned.id().to_string()];
    let profiler = Profiler::start(&scratch, "privileges", &[], &[&options, &SEPARATE[..]].concat());
    let broker = profiler.broker();
    std::thread::sleep(Duration::from_millis(2000));
    let (own, others) = (Status::of_threads(profiler.id()), Status::of_threads(broker));
    let (folded, ..) = profiler.end();
    assert!(folded.share("owned", "main;first;second;third").0 > 0.9, "{}", folded.0);
    for thread in &own {
        assert!(thread.no_new_privileges, "{thread:?}");
        for set in thread.capabilities {
            assert_eq!(set & (OF_BROKER | OVERRIDE), 0, "{thread:?}");
        }
    }
    let confined = |name: &str| own.iter().filter(|it| it.name == name).all(|it| it.is_confined);
    for name in ["ebpf-drain", "ebpf-pipeline", "ebpf-names", "ebpf-tables", "ebpf-helper"] {
        assert!(own.iter().any(|thread| thread.name == name) && confined(name), "{own:#?}");
    }
    assert!(own.iter().any(|thread| !thread.is_confined), "the program itself");
    assert!(!others.is_empty());
    for thread in &others {
        let [inheritable, permitted, effective, bounding, ambient] = thread.capabilities;
        assert_eq!([permitted, effective], [OF_BROKER; 2], "{thread:?}");
        assert_eq!((inheritable | bounding | ambient) & !OF_BROKER, 0, "{thread:?}");
        assert!(thread.is_confined && thread.no_new_privileges, "{thread:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn waits_and_probes_have_stacks_through_a_broker() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let scratch = Scratch::new("events");
    let program = scratch.owned();
    let owned = Process::of_nobody(&program, &[]);
    // The kernel resolves the path of a probe for the profiler, so that has to be able to.
    let copy = scratch.readable(&program);
    let probed = Process::of_nobody(&copy, &[]);
    let pids = [owned.id().to_string(), probed.id().to_string()];
    let uprobe = format!("uprobe:{copy}:second");
    let options =
        ["--seconds", "3", "--on", "off-cpu:1ms", "--on", &uprobe, "--pid", &pids[0], "--pid", &pids[1]];
    let folded = profile(&scratch, "events", &[], &[&options, &SEPARATE[..]].concat());
    let (share, nanoseconds) = folded.share("owned", "main;first;second;third");
    assert!(share > 0.95 && nanoseconds > 1_000_000_000, "{}", folded.0);
    assert!(folded.share("owned", "main;first;second;third;nap").0 > 0.1, "{}", folded.0);
    let calls =
        folded.0.lines().find_map(|line| line.strip_prefix("readable;")?.split_once(";main;first;second "));
    assert!(calls.is_some_and(|(_, calls)| calls.parse::<u64>().unwrap() > 5), "{}", folded.0);
}

#[test]
#[ignore = "needs root"]
fn end_of_broker_ends_no_profile() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let scratch = Scratch::new("killed");
    let owned = Process::of_nobody(&scratch.owned(), &[]);
    for (signal, message) in [("KILL", true), ("STOP", false), ("TERM", false)] {
        let options = ["--seconds", "3"];
        let profiler = Profiler::start(&scratch, "killed", &[], &[&options, &SEPARATE[..]].concat());
        let broker = profiler.broker().to_string();
        std::thread::sleep(Duration::from_millis(1000));
        assert!(Command::new("kill").args(["-s", signal, &broker]).status().unwrap().success());
        // Unknown programs, whose files and memory nobody opens now.
        let others = [(); 3].map(|()| Process::of_nobody(&scratch.path("owned"), &[]));
        let (folded, said, took) = profiler.end();
        drop(others);
        let _ =
            Command::new("kill").args(["-s", "KILL", &broker]).stderr(std::process::Stdio::null()).status();
        println!("{signal}: took {took:.1?}");
        assert!(took < Duration::from_secs(15), "{took:?}");
        assert_eq!(said.contains("the broker has ended"), message, "{said}");
        assert!(folded.share("owned", "").1 > 0, "{}", folded.0);
    }
    drop(owned);
}

#[test]
#[ignore = "needs root"]
fn broker_ends_with_its_profiler() {
    test_needs::root!();
    let scratch = Scratch::new("orphan");
    let profiler = Profiler::start(&scratch, "orphan", &[], &["--seconds", "30", "--broker"]);
    let (own, broker) = (profiler.id().to_string(), profiler.broker());
    std::thread::sleep(Duration::from_millis(500));
    assert!(Command::new("kill").args(["-s", "KILL", &own]).status().unwrap().success());
    let is_there =
        || std::fs::read_to_string(format!("/proc/{broker}/stat")).is_ok_and(|it| !it.contains(") Z "));
    for _ in 0..100 {
        if !is_there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the broker runs on");
}

/// A program with privileges in its file must serve nobody who asks for it.
#[test]
fn program_that_is_executed_by_others_is_no_broker() {
    let output = Command::new(example("flamegraph")).env("EBPF_PROFILER_BROKER", "0").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not executed by Broker::spawn()"), "{said}");
}
