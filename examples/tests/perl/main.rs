//! Stacks of Perl programs compared with Perl's own: every sub and eval, with the line of each call, from `_start` to the
//! leaf.
//!
//! ```sh
//! sudo -E env PATH="$PATH" cargo test --release -p examples --test perl -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.pl` builds a chain of calls, prints what `caller` says of it, and spins at its end. A sample is exact if
//! its script frames are that, with file and line of each, and if it begins at `_start` and has no native frame of the loop.
//! The innermost sub may be on the lines with the comment "spin".
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, and prints")]

#[path = "../scripts/chain.rs"]
mod chain;
#[path = "../scripts/profile.rs"]
mod profile;
#[path = "../scripts/seen.rs"]
mod seen;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use chain::{Call, Running};
use profile::profile;
use seen::{Seen, Stack};

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
];

/// The Perl of this machine.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_of_installed_perl() {
    test_needs::root!();
    test_needs::programs!("perl");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perl/programs/chains.pl");
    let running: Vec<_> = CASES
        .iter()
        .map(|(chain, argument)| {
            let mut command = Command::new("perl");
            command.args([program, chain]).args(Some(argument).filter(|it| !it.is_empty()));
            let running = Running::start(command);
            running.signal("STOP");
            running
        })
        .collect();
    running.iter().for_each(|running| running.signal("CONT"));
    let stacks = seen::stacks(&profile(running.iter().map(Running::pid), DURATION));
    let mut failures = String::new();
    for ((chain, argument), running) in CASES.iter().zip(&running) {
        let own: Vec<_> = stacks.iter().filter(|stack| stack.pid == running.pid()).collect();
        let samples: u64 = own.iter().map(|stack| stack.count).sum();
        let mut wrong: BTreeMap<String, (u64, &Stack)> = BTreeMap::new();
        for stack in own {
            if let Err(reason) = compare(stack, &running.chain) {
                wrong.entry(reason).or_insert((0, stack)).0 += stack.count;
            }
        }
        let exact = samples - wrong.values().map(|(count, _)| count).sum::<u64>();
        println!("share\tperl\tinstalled\t{chain}{argument}\t{exact}\t{samples}");
        if samples == 0 || exact * 1000 < samples * PER_MILLE {
            failures += &format!("\n{chain}: {samples} samples, {exact} exact");
            for (reason, (count, stack)) in wrong {
                let frames: Vec<_> = stack.frames.iter().map(Seen::to_string).collect();
                failures += &format!("\n    {count} x {reason}\n        {}", frames.join(";"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Fails with the difference of a stack from the expected chain.
fn compare(stack: &Stack, chain: &[Call]) -> Result<(), String> {
    if let Some(cut) = &stack.cut {
        return Err(format!("cut: {cut}"));
    }
    if stack.frames.first() != Some(&Seen::Native("_start".to_owned())) {
        return Err("doesn't begin at _start".to_owned());
    }
    if stack.frames.contains(&Seen::Native("Perl_runops_standard".to_owned())) {
        return Err("a loop without its script frames".to_owned());
    }
    let spin = spin_lines();
    let mut expected = chain.iter();
    for seen in &stack.frames {
        let Seen::Script { name, file, line, is_unnamed } = seen else { continue };
        let Some(call) = expected.next() else { return Err(format!("{seen} is one too many")) };
        let is_right = if expected.len() == 0 { spin.contains(line) } else { call.line == *line };
        if *is_unnamed || *name != call.name || *file != call.file || !is_right {
            return Err(format!("{seen} instead of {}:{}", call.name, call.line));
        }
    }
    expected.next().map_or(Ok(()), |call| Err(format!("ends before {}:{}", call.name, call.line)))
}

/// Returns the lines with the comment "spin".
fn spin_lines() -> Vec<u32> {
    let lines = (1..).zip(include_str!("programs/chains.pl").lines());
    lines.filter(|(_, line)| line.ends_with("# spin")).map(|(number, _)| number).collect()
}
