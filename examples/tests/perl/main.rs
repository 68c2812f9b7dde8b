//! Stacks of Perl programs compared with Perl's own: every sub and eval, with the line of each call, from `_start` to the
//! leaf.
//!
//! ```sh
//! cargo xtask fixtures perl
//! sudo -E env PATH="$PATH" cargo test --release -p examples --test perl -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.pl` builds a chain of calls, prints what `caller` says of it, and spins at its end. A sample is exact if
//! its script frames are that, with file and line of each, if it begins at `_start` and has no native frame of the loop, and if
//! `sort` stands where it calls back. The innermost sub may be on the lines with the comment "spin", and on two lines with the
//! same code equally often.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

#[path = "../scripts/chain.rs"]
mod chain;
mod interpreter;
#[path = "../scripts/profile.rs"]
mod profile;
#[path = "../scripts/seen.rs"]
mod seen;
#[path = "../scripts/verdict.rs"]
mod verdict;

use std::time::Duration;

use chain::{Call, Running};
use interpreter::Interpreter;
use profile::profile;
use seen::{Seen, Stack};
use verdict::Verdict;

/// Profiling time of all chains together.
const DURATION: Duration = Duration::from_secs(6);

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
];

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

/// Other versions and builds.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_perl_5_32() {
        check_fetched("5.32");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_perl_5_40() {
        check_fetched("5.40");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_perl_5_42() {
        check_fetched("5.42");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_perl_without_threads() {
        test_needs::root!();
        check_found("5.36-unthreaded", Interpreter::built("5.36-unthreaded"));
    }
}

fn check_fetched(name: &str) {
    test_needs::root!();
    check_found(name, Interpreter::fetched(name));
}

fn check_found(name: &str, interpreter: Option<Interpreter>) {
    match interpreter {
        Some(interpreter) => check(&interpreter),
        None => test_needs::skip(&format!("no Perl {name}: cargo xtask fixtures perl")),
    }
}

/// Runs all chains at the same time under one interpreter, and fails if one of them isn't good.
fn check(interpreter: &Interpreter) {
    let wanted = std::env::var("TRUTH_CHAIN").unwrap_or_default();
    let is_wanted = |(chain, _): &&(&str, &str)| wanted.split(',').any(|part| chain.contains(part));
    let cases: Vec<_> = CASES.iter().filter(is_wanted).collect();
    let running: Vec<_> = cases
        .iter()
        .map(|(chain, argument)| {
            let running = Running::start(interpreter.command(&[chain, argument]));
            running.signal("STOP");
            running
        })
        .collect();
    running.iter().for_each(|running| running.signal("CONT"));
    let stacks = seen::stacks(&profile(running.iter().map(Running::pid), DURATION));
    let mut failures = String::new();
    for ((chain, argument), running) in cases.iter().zip(&running) {
        let own = stacks.iter().filter(|stack| stack.pid == running.pid());
        let verdict = Verdict::on(own, |stack| compare(stack, chain, &running.chain));
        let Verdict { exact, samples, .. } = &verdict;
        println!("share\tperl\t{}\t{chain}{argument}\t{exact}\t{samples}", interpreter.name);
        if *chain == "two_lines" && !verdict.has_equal_lines() {
            failures += &format!("\n{chain} under {}: lines {:?}", interpreter.name, verdict.lines);
        }
        if !verdict.is_good(PER_MILLE) {
            failures += &format!("\n{chain}{argument} under {}: {verdict}", interpreter.name);
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Returns the line of the innermost sub in an exact stack. Fails with the difference from the expected chain.
fn compare(stack: &Stack, name: &str, chain: &[Call]) -> Result<u32, String> {
    if let Some(cut) = &stack.cut {
        return Err(format!("cut: {cut}"));
    }
    // Some builds are stripped.
    let is_root = |seen: &Seen| matches!(seen, Seen::Native(name) if name == "_start" || name.is_empty());
    if !stack.frames.first().is_some_and(is_root) {
        return Err("doesn't begin at _start".to_owned());
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
