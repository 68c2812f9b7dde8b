//! Shares of functions compared with those of `node --cpu-prof`, which samples the same run: a
//! signal interrupts the thread at any instruction, 1,000 times a second, and its handler takes the
//! stack.
//!
//! Two lists of counts are of the same shares if their chi-squared statistic is below that of
//! chance in 1 of 1,000 runs.
//!
//! Before 25, `--cpu-prof` shows the innermost of inlined functions as their caller, so nothing is
//! inlined there. From 16 to 20 it has half of the samples of an interpreted program, and few of
//! those in loops, so these versions have no such run.

use std::time::Duration;

use ebpf_profiler_core::profile::{Call, Profile};

use crate::Node;
use crate::recorded::{Recorded, SEPARATE};
use live_suite::comparison::chi_squared::{chi_squared, limit};

/// The functions of `shares.js`, but for those that allocate: `--cpu-prof` counts the collection of
/// garbage for itself.
const FUNCTIONS: [&str; 6] =
    ["looping", "recursing", "comparing", "get balance", "set balance", "dispatching"];

/// Program, and what prints the samples in a file of `--cpu-prof`.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/v8/programs/shares.js");
const LEAVES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/v8/programs/leaves.js");

/// Least number of samples of each tool.
const MIN_SAMPLES: u64 = 200;

/// Samples of each function.
type Counts = [u64; FUNCTIONS.len()];

/// Compares the shares of runs of a version, with and without inlining and in the interpreter,
/// where the tool is right.
pub(crate) fn check(node: &Node, duration: Duration) {
    let version: u32 = node.name.parse().unwrap();
    check_mode(node, "without inlining", SEPARATE, duration);
    match version {
        ..16 => check_mode(node, "interpreter", crate::OLD_INTERPRETER, duration),
        22.. => check_mode(node, "interpreter", crate::INTERPRETER, duration),
        _ => {}
    }
    if version >= 25 {
        check_mode(node, "default", &[], duration);
    }
}

/// Compares the shares of one run of a version, for a short time.
pub(crate) fn check_shortly(node: &Node) {
    check_mode(node, "without inlining", SEPARATE, Duration::from_secs(4));
}

fn check_mode(node: &Node, mode: &str, flags: &[&str], duration: Duration) {
    let program = Recorded::start(node, flags, PROGRAM);
    let profile = program.profile(duration);
    let (sampled, recorded) = (sampled(&profile), recorded(&program.read(LEAVES, &["shares.js"])));
    let chance = chi_squared(&sampled, &recorded);
    let name = format!("Node.js {} {mode}", node.name);
    println!("{name}: {sampled:?} sampled, {recorded:?} by --cpu-prof: chi-squared {chance:.1}");
    for counts in [sampled, recorded] {
        assert!(counts.iter().sum::<u64>() >= MIN_SAMPLES, "{name}: few samples: {sampled:?}, {recorded:?}");
    }
    assert!(chance < limit(FUNCTIONS.len()), "{name}: {sampled:?}, but {recorded:?} by --cpu-prof");
}

/// Returns the samples of each function, from a line for each sample.
fn recorded(leaves: &str) -> Counts {
    let mut counts = Counts::default();
    leaves.lines().for_each(|name| add(&mut counts, name, 1));
    counts
}

/// Returns the samples of each function in a profile.
fn sampled(profile: &Profile) -> Counts {
    let mut counts = Counts::default();
    for sample in profile.samples() {
        let scripts = sample.trace().calls().filter_map(|call| match call {
            Call::Function { frame, .. } => frame.script(),
            _ => None,
        });
        if let Some(leaf) = scripts.filter(|script| &*script.file == PROGRAM).last() {
            add(&mut counts, &leaf.name, sample.count());
        }
    }
    counts
}

fn add(counts: &mut Counts, name: &str, count: u64) {
    if let Some(index) = FUNCTIONS.iter().position(|known| *known == name) {
        counts[index] += count;
    }
}
