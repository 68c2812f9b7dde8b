//! Stacks of Lua programs compared with Lua's own: every function, with the line of each call, from
//! `_start` to the leaf.
//!
//! ```sh
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test luajit -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.lua` builds a chain of calls, prints Lua's backtrace of it, and spins at its
//! end. A sample is exact if its script frames are that backtrace, with name, file and line of
//! each; if native frames stand behind each function in C that calls back through the interface to
//! C, and behind no other; and if it begins at the root. The innermost function may be on the lines
//! with the comment "spin", and, in the interpreter, on two lines with the same code equally often.
//!
//! `TRUTH_CHAIN=sort,wrap` leaves only chains with one of these in their names.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod comparison;
mod host;
mod programs;
mod shares;

use std::time::Duration;

use comparison::compare_all;
use host::Host;
use live_suite::reference::chain::Running;
use live_suite::sampled::Seen;
use live_suite::sampled::{profile, stacks};
use live_suite::selection::is_wanted;

/// Profiling time of all chains together.
const DURATION: Duration = Duration::from_secs(8);

/// Minimum number of exact samples, of 1,000.
const PER_MILLE: u64 = 990;

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
    ("jumps", ["jumps", "0"]),
    ("foreign_callback", ["foreign_callback", "0"]),
    ("states", ["states", "0"]),
];

const PROGRAM: &str = include_str!("programs/chains.lua");

/// The interpreter of this machine's LuaJIT.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_of_installed_interpreter() {
    test_needs::root!();
    test_needs::programs!("luajit");
    check("installed, no JIT", &Host::installed(&["-joff"]));
}

/// Traces of this machine's LuaJIT: loops are compiled, and the innermost function runs in a trace.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_of_installed_jit() {
    test_needs::root!();
    test_needs::programs!("luajit");
    check("installed", &Host::installed(&[]));
}

/// Code in memory of its own that LuaJIT didn't compile: it isn't Lua's, and the functions that
/// called it are behind it.
#[test]
#[ignore = "profiles: needs root"]
fn machine_code_of_others_is_not_lua() {
    test_needs::root!();
    test_needs::programs!("luajit");
    let host = Host::installed(&[]);
    let running = ["off", "on"].map(|jit| {
        let mut command = host.command("machine_code.lua");
        command.arg(jit);
        Running::start(command)
    });
    let stacks = stacks(&profile(running.iter().map(Running::pid), DURATION / 2));
    for (jit, running) in ["off", "on"].into_iter().zip(&running) {
        let (mut samples, mut right) = (0, 0);
        for stack in stacks.iter().filter(|stack| stack.is_of(running.pid(), None)) {
            let frames: Vec<_> = stack.frames.iter().map(ToString::to_string).collect();
            let is_caller =
                |seen: &Seen| matches!(seen, Seen::Script { name, .. } if name.ends_with("caller"));
            let has_caller = stack.frames.iter().any(is_caller);
            let is_inside = frames.ends_with(&["foreign_outer(:0)", "foreign_inner(:0)"].map(String::from));
            let is_right = stack.cut.is_none() && has_caller && is_inside;
            samples += stack.count;
            right += if is_right { stack.count } else { 0 };
            if !is_right {
                println!("{} {} {:?}", stack.count, frames.join(" > "), stack.cut);
            }
        }
        println!("machine code, jit {jit}: {right} of {samples}");
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", running.pid()));
        assert!(samples > 500 && right * 1000 >= samples * PER_MILLE, "jit {jit}: {right} of {samples}");
    }
}

/// A program of others.
#[test]
#[ignore = "profiles: needs root"]
fn luacheck_from_its_start() {
    test_needs::root!();
    test_needs::programs!("luajit");
    let failed = programs::failures("installed", &Host::installed(&[]), "Luacheck");
    assert!(failed.is_empty(), "{failed:?}");
}

/// Versions of other Debian suites, and other programs that contain LuaJIT.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root"]
    fn programs_from_their_start() {
        test_needs::root!();
        test_needs::programs!("luajit");
        let fetched = [
            "bullseye",
            "luajit2-bookworm",
            "trixie",
            "forky",
            "nvim-trixie",
            "lupa-2.8",
            "lupa-2.8-2.0",
            "mlua-0.12.2",
        ];
        let fetched = fetched.into_iter().filter_map(|name| Some((name, Host::find(name)?)));
        let installed = [("installed, no JIT", &["-joff"][..]), ("installed", &[])];
        let all = fetched.chain(installed.map(|(name, options)| (name, Host::installed(options))));
        let failed: Vec<_> = all.flat_map(|(name, host)| programs::failures(name, &host, "")).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }

    fn check_fetched(name: &str) {
        match Host::find(name) {
            Some(host) => check(name, &host),
            None => test_needs::skip(&format!("no LuaJIT {name}: cargo xtask fixtures luajit")),
        }
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_debian() {
        test_needs::root!();
        for name in ["bullseye", "luajit2-bookworm", "trixie", "forky"] {
            check_fetched(name);
            if let Some(host) = Host::find(name) {
                check(&format!("{name}, no JIT"), &host.with("-joff"));
            }
        }
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_in_editor() {
        test_needs::root!();
        check_fetched("nvim-trixie");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_in_python() {
        test_needs::root!();
        check_fetched("lupa-2.8");
        check_fetched("lupa-2.8-2.0");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_in_rust() {
        test_needs::root!();
        check_fetched("mlua-0.12.2");
    }
}

/// Runs all chains at the same time in one program, and fails if one of them isn't good.
fn check(name: &str, host: &Host) {
    let is_there = |case: &str| case != "states" || host.exports_interface();
    let cases: Vec<_> = CASES.iter().filter(|(case, _)| is_wanted(case) && is_there(case)).collect();
    let running: Vec<_> = cases
        .iter()
        .map(|(_, arguments)| {
            let mut started = host.command("chains.lua");
            started.args(arguments);
            let running = Running::start(started);
            running.signal("STOP");
            running
        })
        .collect();
    running.iter().for_each(|running| running.signal("CONT"));
    let stacks = stacks(&profile(running.iter().map(Running::pid), DURATION));
    let mut failures = String::new();
    for ((case, _), running) in cases.iter().zip(&running) {
        let own = stacks.iter().filter(|stack| stack.is_of(running.pid(), None));
        let comparison = compare_all(own, &running.chain, PROGRAM);
        println!("share\tluajit\t{name}\t{case}\t{}\t{}", comparison.exact, comparison.samples);
        // A trace has the line on which it began.
        if *case == "two_lines" && name.ends_with("JIT") && !comparison.has_equal_lines() {
            failures += &format!("\n{case} under {name}: lines {:?}", comparison.lines);
        }
        if !comparison.is_good(PER_MILLE) {
            failures += &format!("\n{case} under {name}: {comparison}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
