//! Shares of functions compared with those of LuaJIT's own profiler, `-jp`, which samples the same
//! run.

use crate::host::Host;
use live_suite::comparison::chi_squared::{chi_squared, limit};
use live_suite::sampled::{FREQUENCY, Seen, Stack, profiler, stacks};

/// The functions that the program spends its time in.
const FUNCTIONS: [&str; 4] = ["first", "second", "third", "fourth"];

/// Samples of each function.
type Counts = [u64; FUNCTIONS.len()];

/// Options of LuaJIT's profiler: functions, raw counts of all of them, each 4 ms.
const PROFILER: &str = "-jp=fri4m0";

/// Processor time of the program, in seconds.
const SECONDS: &str = "6";

/// Least number of samples of each tool.
const MIN_SAMPLES: u64 = 300;

fn check(options: &[&str]) {
    let profiler = profiler([std::process::id()], FREQUENCY);
    let output = Host::installed(options).command("shares.lua").arg(SECONDS).output().unwrap();
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    let mut sampled = Counts::default();
    for stack in stacks(&profile) {
        add(&mut sampled, leaf(&stack), stack.count);
    }
    let mut printed = Counts::default();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let count = words.next().and_then(|count| count.parse().ok()).unwrap_or(0);
        add(&mut printed, words.next(), count);
    }
    let chance = chi_squared(&sampled, &printed);
    println!("{options:?}: {sampled:?} sampled, {printed:?} by LuaJIT's profiler: chi-squared {chance:.1}");
    for counts in [sampled, printed] {
        assert!(counts.iter().sum::<u64>() >= MIN_SAMPLES, "few samples: {text}");
    }
    assert!(
        chance < limit(FUNCTIONS.len()),
        "{options:?}: {sampled:?}, but {printed:?} by LuaJIT's profiler"
    );
}

/// Returns the name of the innermost function.
fn leaf(stack: &Stack) -> Option<&str> {
    stack.frames.iter().rev().find_map(|seen| match seen {
        Seen::Script { name, .. } => Some(name.as_str()),
        Seen::Native(_) => None,
    })
}

fn add(counts: &mut Counts, function: Option<&str>, count: u64) {
    let index = FUNCTIONS.iter().position(|name| Some(*name) == function);
    if let Some(index) = index {
        counts[index] += count;
    }
}

/// Against LuaJIT's own profiler.
mod matrix {
    use super::*;

    /// The interpreter of this machine's LuaJIT. The functions of traces are those in which they began,
    /// so that one of a loop is the same to both.
    #[test]
    #[ignore = "profiles: needs root"]
    fn shares_are_those_of_own_profiler() {
        test_needs::root!();
        test_needs::programs!("luajit");
        for options in [&["-joff", PROFILER][..], &[PROFILER]] {
            check(options);
        }
    }
}
