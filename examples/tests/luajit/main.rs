//! Stacks of Lua programs compared with Lua's own: every function, with the line of each call, from `_start` to the leaf.
//!
//! ```sh
//! sudo -E env PATH="$PATH" cargo test --release -p examples --test luajit -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.lua` builds a chain of calls, prints Lua's backtrace of it, and spins at its end. A sample is exact if its
//! script frames are that backtrace, with name, file and line of each; if native frames stand behind each function in C that
//! calls back through the interface to C, and behind no other; and if it begins at the root. The innermost function may be
//! on the lines with the comment "spin", and, in the interpreter, on two lines with the same code equally often.
//!
//! `TRUTH_CHAIN=sort,wrap` leaves only chains with one of these in their names.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

#[path = "../php/chain.rs"]
mod chain;
mod judge;
#[path = "../php/seen.rs"]
mod seen;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;

use chain::Running;
use judge::Verdict;

/// Profiling time of all chains together, in seconds.
const SECONDS: f64 = 8.0;

/// Minimum number of exact samples, of 1,000.
const PER_MILLE: u64 = 990;

/// Time before the samples that count.
const WARM_UP: Duration = Duration::from_secs(2);

/// Sampling frequency per CPU, in Hz.
const FREQUENCY: u32 = 997;

/// Name, and the arguments of the program.
const CASES: &[(&str, [&str; 2])] = &[
    ("recursion_20", ["recursion", "20"]),
    ("recursion_300", ["recursion", "300"]),
    ("names", ["names", "0"]),
    ("foreign", ["foreign", "0"]),
    ("methods", ["methods", "0"]),
    ("metamethods", ["metamethods", "0"]),
    ("tostring", ["tostring", "0"]),
    ("pcall", ["pcall", "0"]),
    ("handler", ["handler", "0"]),
    ("gsub", ["gsub", "0"]),
    ("sort", ["sort", "0"]),
    ("callbacks", ["callbacks", "0"]),
    ("varargs", ["varargs", "0"]),
    ("tail", ["tail", "0"]),
    ("iterator", ["iterator", "0"]),
    ("wrap", ["wrap", "0"]),
    ("coroutines", ["coroutines", "0"]),
    ("callback_of_coroutine", ["callback_of_coroutine", "0"]),
    ("files", ["files", "0"]),
    ("dofile", ["dofile", "0"]),
    ("two_lines", ["two_lines", "0"]),
];

const PROGRAM: &str = include_str!("programs/chains.lua");

/// The interpreter of this machine's LuaJIT.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_of_installed_interpreter() {
    test_needs::root!();
    test_needs::programs!("luajit");
    check("installed", &["luajit", "-joff"]);
}

/// Traces of this machine's LuaJIT: loops are compiled, and the innermost function runs in a trace.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_of_installed_jit() {
    test_needs::root!();
    test_needs::programs!("luajit");
    check("jit", &["luajit"]);
}

/// Runs all chains at the same time under one command, and fails if one of them isn't good.
fn check(name: &str, command: &[&str]) {
    let wanted = std::env::var("TRUTH_CHAIN").unwrap_or_default();
    let is_wanted = |case: &str| wanted.split(',').any(|part| case.contains(part));
    let cases: Vec<_> = CASES.iter().filter(|(case, _)| is_wanted(case)).collect();
    let program = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/luajit/programs/chains.lua"));
    let running: Vec<_> = cases
        .iter()
        .map(|(_, arguments)| {
            let mut started = Command::new(command[0]);
            started.args(&command[1..]).arg(program).args(arguments);
            let running = Running::start(started);
            running.signal("STOP");
            running
        })
        .collect();
    running.iter().for_each(|running| running.signal("CONT"));
    let pids: Vec<_> = running.iter().map(Running::pid).collect();
    let profile = profile(&pids, || std::thread::sleep(Duration::from_secs_f64(SECONDS)));
    let stacks = seen::stacks(&profile);
    let mut failures = String::new();
    for ((case, _), running) in cases.iter().zip(&running) {
        let own: Vec<_> = stacks.iter().filter(|stack| stack.pid == running.pid()).cloned().collect();
        let verdict = Verdict::on(&own, &running.chain, PROGRAM);
        println!("share\tluajit\t{name}\t{case}\t{}\t{}", verdict.exact, verdict.samples);
        // A trace has the line on which it began.
        if *case == "two_lines" && name != "jit" && !verdict.has_equal_lines() {
            failures += &format!("\n{case} under {name}: lines {:?}", verdict.lines);
        }
        if !verdict.is_good(PER_MILLE) {
            failures += &format!("\n{case} under {name}: {verdict}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Profiles processes while `meanwhile` runs.
fn profile(pids: &[u32], meanwhile: impl FnOnce()) -> Profile {
    let builder = Profiler::builder()
        .deadline(Duration::from_secs(120))
        .frequency(FREQUENCY)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all());
    let builder = pids.iter().fold(builder, |builder, &pid| builder.pid(pid));
    let profiler = builder.start().unwrap_or_else(|error| panic!("{error}"));
    // Until the tables are ready, stacks are copied, and deep ones truncated.
    std::thread::sleep(WARM_UP);
    drop(profiler.take_profile().unwrap_or_else(|error| panic!("{error}")));
    meanwhile();
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    profile
}
