//! Stacks of Perl programs compared with Perl's own: every sub and eval, with the line of each
//! call, from `_start` to the leaf.
//!
//! ```sh
//! cargo xtask fixtures perl
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test perl -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.pl` builds a chain of calls, prints what `caller` says of it, and spins at its
//! end. A sample is exact if its script frames are that, with file and line of each, if it begins
//! at `_start` and has no native frame of the loop, and if `sort` stands where it calls back. The
//! innermost sub may be on the lines with the comment "spin", and on two lines with the
//! same code equally often.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod destructor;
mod interpreter;
mod loading;
mod programs;
mod shares;
mod subs;

use std::time::Duration;

use interpreter::Interpreter;
use live_suite::comparison::Comparison;
use live_suite::process::Process;
use live_suite::reference::chain::{Call, Chain, Running};
use live_suite::reference::printed::printed;
use live_suite::sampled::{Seen, Stack};
use live_suite::sampled::{profile, stacks};
use live_suite::selection::is_wanted;

/// Profiling time of all chains together, and of those that run in threads.
const DURATION: Duration = Duration::from_secs(6);
const DURATION_IN_THREADS: Duration = Duration::from_secs(3);

/// Minimum number of exact samples, of 1,000.
const PER_MILLE: u64 = 990;

/// Chains and their arguments.
const CASES: &[(&str, &str)] = &[
    ("recursion", "20"),
    ("recursion", "300"),
    ("methods", ""),
    ("sort_sub", ""),
    ("sort_block", ""),
    ("map", ""),
    ("eval_block", ""),
    ("eval_string", ""),
    ("closures", ""),
    ("overload", ""),
    ("tie", ""),
    ("destructor", ""),
    ("goto", ""),
    ("die", ""),
    ("warn", ""),
    ("substitution", ""),
    ("names", ""),
    ("two_lines", ""),
    ("sort_call", ""),
    ("sort_sub_eval", ""),
    ("sort_block_eval", ""),
    ("sort_block_string", ""),
    ("sort_after_eval", ""),
    ("sort_called_eval", ""),
    ("sort_called_after_eval", ""),
    ("sort_leaf_after_eval", ""),
    ("sort_nested", ""),
    ("eval_in_eval", ""),
    ("eval_around", ""),
    ("map_eval", ""),
    ("first_eval", ""),
    ("reduce_eval", ""),
    ("tie_eval", ""),
    ("destructor_eval", ""),
    ("die_eval", ""),
    ("regex_code", ""),
    ("first", ""),
    ("reduce", ""),
    ("autoload", ""),
    ("autoload_method", ""),
    ("tie_hash", ""),
    ("overload_compare", ""),
    ("overload_method", ""),
    ("goto_recursion", ""),
    ("format", ""),
    ("reused", ""),
    ("symbolic", ""),
    ("can", ""),
];

/// Chains that run in threads of one process, each with an interpreter of its own.
const IN_THREADS: &[&str] = &[
    "recursion",
    "methods",
    "sort_block",
    "sort_sub_eval",
    "eval_string",
    "closures",
    "overload",
    "tie",
    "destructor",
    "goto",
    "die",
    "regex_code",
    "first",
    "format",
    "names",
    "two_lines",
];

/// Native functions at which processes and threads begin.
const ROOTS: &[&str] = &["_start", "clone3", "__clone3", "clone", "__clone"];

/// Loops, which only a missing run of script frames would show.
const LOOPS: &[&str] = &["Perl_runops_standard", "Perl_runops_debug"];

/// Number of script frames outside `sort` in chains that begin with it: the main program and a sub.
const OUTSIDE_SORT: usize = 2;

/// The Perl of this machine.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_of_installed_perl() {
    test_needs::root!();
    test_needs::programs!("perl");
    check(&Interpreter::installed());
}

/// Several interpreters in a process.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_in_threads_of_installed_perl() {
    test_needs::root!();
    test_needs::programs!("perl");
    check_threads(&Interpreter::installed());
}

/// A destructor in C.
#[test]
#[ignore = "profiles: needs root"]
fn destructor_in_c_keeps_the_subs_outside() {
    test_needs::root!();
    test_needs::programs!("perl");
    destructor::check(&Interpreter::installed());
}

/// Stacks that are unwound from copies.
#[test]
#[ignore = "profiles: needs root"]
fn copied_stacks_have_the_subs_of_their_moment() {
    test_needs::root!();
    test_needs::programs!("perl");
    loading::check(&Interpreter::installed());
}

/// A program of others.
#[test]
#[ignore = "profiles: needs root"]
fn markdown_from_its_start() {
    test_needs::root!();
    test_needs::programs!("perl");
    let failed = programs::failures(&Interpreter::installed(), "Markdown");
    assert!(failed.is_empty(), "{failed:?}");
}

/// Other versions and builds.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root"]
    fn programs_from_their_start() {
        test_needs::root!();
        test_needs::programs!("perl");
        let fetched = ["5.32", "5.36", "5.40", "5.42"].into_iter();
        let fetched = fetched.filter_map(|name| Interpreter::fetched(name, "perl"));
        let all = fetched.chain([Interpreter::installed()]);
        let failed: Vec<_> = all.flat_map(|perl| programs::failures(&perl, "")).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn destructors_in_c() {
        test_needs::root!();
        for name in ["5.32", "5.36", "5.40", "5.42"] {
            check_found(name, Interpreter::fetched(name, "perl"), destructor::check);
        }
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_perl_5_32() {
        check_fetched("5.32", "perl");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_perl_5_40() {
        check_fetched("5.40", "perl");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_perl_5_42() {
        check_fetched("5.42", "perl");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_perl_5_36() {
        check_fetched("5.36", "perl");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn shares_are_those_of_nytprof() {
        test_needs::root!();
        check_found("5.36", Interpreter::fetched("5.36", "perl"), shares::check);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_debugging_perl() {
        check_fetched("5.36", "debugperl");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_in_threads() {
        test_needs::root!();
        for name in ["5.32", "5.40", "5.42"] {
            check_found(name, Interpreter::fetched(name, "perl"), check_threads);
        }
        check_found("5.36", Interpreter::fetched("5.36", "debugperl"), check_threads);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_perl_without_threads() {
        test_needs::root!();
        check_found("5.36-unthreaded", Interpreter::built("5.36-unthreaded"), check);
    }
}

fn check_fetched(name: &str, program: &str) {
    test_needs::root!();
    check_found(name, Interpreter::fetched(name, program), check);
}

fn check_found(name: &str, interpreter: Option<Interpreter>, check: fn(&Interpreter)) {
    match interpreter {
        Some(interpreter) => check(&interpreter),
        None => test_needs::skip(&format!("no Perl {name}: cargo xtask fixtures perl")),
    }
}

/// A running chain.
struct Subject {
    name: &'static str,
    argument: &'static str,
    pid: u32,
    /// Name of the thread, if others of the process run other chains.
    thread: Option<&'static str>,
    chain: Vec<Call>,
}

/// Runs all chains at the same time under one interpreter, and fails if one of them isn't good.
fn check(interpreter: &Interpreter) {
    let cases: Vec<_> = CASES.iter().filter(|(name, _)| is_wanted(name)).collect();
    let start = |(name, argument): &&(&str, &str)| {
        let running = Running::start(interpreter.command(&[name, argument]));
        running.signal("STOP");
        running
    };
    let running: Vec<_> = cases.iter().map(start).collect();
    running.iter().for_each(|running| running.signal("CONT"));
    let subject = |(&&(name, argument), running): (&&(&'static str, &'static str), &Running)| {
        let (pid, chain) = (running.pid(), running.chain.clone());
        Subject { name, argument, pid, thread: None, chain }
    };
    let subjects: Vec<_> = cases.iter().zip(&running).map(subject).collect();
    check_subjects(&interpreter.name, &subjects, DURATION);
}

/// Runs chains at the same time, each in a thread of one process, and fails if one of them isn't
/// good.
fn check_threads(interpreter: &Interpreter) {
    let folder = interpreter.folder();
    let outside = interpreter.outside(&folder);
    // Left behind by a failed run.
    let _ = std::fs::remove_dir_all(&outside);
    std::fs::create_dir_all(&outside).unwrap();
    let names: Vec<_> = IN_THREADS.iter().copied().filter(|name| is_wanted(name)).collect();
    let mut command = interpreter.command(&["threads", &folder.display().to_string()]);
    let running = Process::start(command.args(&names));
    let subject = |&name: &&'static str| {
        let Some(Chain { calls: mut chain, .. }) = printed(&outside.join(name)) else {
            panic!("{}: {name} is not ready", interpreter.name);
        };
        // The thread's C code calls a sub within an eval: no loop runs that, and the statement that created
        // the thread.
        assert_eq!([&*chain[0].name, &*chain[1].name], ["{main}", "(eval)"]);
        chain.drain(..2);
        Subject { name, argument: "", pid: running.id(), thread: Some(name), chain }
    };
    let subjects: Vec<_> = names.iter().map(subject).collect();
    std::fs::write(outside.join("go"), "").unwrap();
    check_subjects(&format!("{} threads", interpreter.name), &subjects, DURATION_IN_THREADS);
    let _ = std::fs::remove_dir_all(outside);
}

/// Profiles running chains, and fails if one of them isn't good.
fn check_subjects(interpreter: &str, subjects: &[Subject], duration: Duration) {
    let mut pids: Vec<u32> = subjects.iter().map(|subject| subject.pid).collect();
    pids.dedup();
    let stacks = stacks(&profile(pids, duration));
    let mut failures = String::new();
    for Subject { name, argument, pid, thread, chain } in subjects {
        let own = stacks.iter().filter(|stack| stack.is_of(*pid, *thread));
        let comparison = Comparison::on(own, |stack| compare(stack, name, chain));
        let Comparison { exact, samples, .. } = &comparison;
        println!("share\tperl\t{interpreter}\t{name}{argument}\t{exact}\t{samples}");
        if *name == "two_lines" && !comparison.has_equal_lines() {
            failures += &format!("\n{name} under {interpreter}: lines {:?}", comparison.lines);
        }
        if !comparison.is_good(PER_MILLE) {
            failures += &format!("\n{name}{argument} under {interpreter}: {comparison}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Returns the line of the innermost sub in an exact stack. Fails with the difference from the
/// expected chain.
fn compare(stack: &Stack, name: &str, chain: &[Call]) -> Result<u32, String> {
    if let Some(cut) = &stack.cut {
        return Err(format!("cut: {cut}"));
    }
    // Some builds are stripped.
    let is_root =
        |seen: &Seen| matches!(seen, Seen::Native(name) if ROOTS.contains(&&**name) || name.is_empty());
    if !stack.frames.first().is_some_and(is_root) {
        return Err(format!("doesn't begin at one of {ROOTS:?}"));
    }
    let is_loop = |seen: &Seen| matches!(seen, Seen::Native(name) if LOOPS.contains(&name.as_str()));
    if stack.frames.iter().any(is_loop) {
        return Err("a loop without its script frames".to_owned());
    }
    let sort = stack.frames.iter().position(|seen| *seen == Seen::Native("Perl_pp_sort".to_owned()));
    if let Some(sort) = sort.filter(|_| name.starts_with("sort")) {
        let outside = stack.frames[..sort].iter().filter(|seen| matches!(seen, Seen::Script { .. })).count();
        if outside != OUTSIDE_SORT {
            return Err(format!("{outside} script frames outside sort"));
        }
    }
    let spin = spin_lines();
    let mut innermost = 0;
    let mut expected = chain.iter();
    for seen in &stack.frames {
        let Seen::Script { name, file, line, is_unnamed } = seen else { continue };
        let Some(call) = expected.next() else { return Err(format!("{seen} is one too many")) };
        let is_right = if expected.len() == 0 { spin.contains(line) } else { call.line == *line };
        if *is_unnamed || *name != call.name || *file != call.file || !is_right {
            return Err(format!("{seen} instead of {}:{}", call.name, call.line));
        }
        innermost = *line;
    }
    expected.next().map_or(Ok(innermost), |call| Err(format!("ends before {}:{}", call.name, call.line)))
}

/// Returns the lines with the comment "spin".
fn spin_lines() -> Vec<u32> {
    let lines = (1..).zip(include_str!("programs/chains.pl").lines());
    lines.filter(|(_, line)| line.ends_with("# spin")).map(|(number, _)| number).collect()
}
