//! Shares of functions in a profile, and those that the language's own profiler finds in the same
//! run.
//!
//! Counts have the shares that another profiler found if chi-squared is below that of chance in 1
//! of 1,000 runs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::{Kind, Profile};

use crate::reference::chain::Process;

/// The functions that the programs spend their time in.
const FUNCTIONS: [&str; 4] = ["first", "second", "third", "fourth"];

/// Chi-squared of three degrees of freedom that chance exceeds in 1 of 1,000 runs.
pub const CHANCE: f64 = 16.27;

/// Values of the functions.
pub type Values = [f64; FUNCTIONS.len()];

/// Profiles a program from the line "ready" to its end. Returns the samples of each function, whose
/// name begins with `prefix`, and the further output.
pub fn run(mut command: Command, prefix: &str) -> (Values, String) {
    let mut process = Process(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let mut output = BufReader::new(process.0.stdout.take().unwrap());
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "{command:?} ended before it was ready");
    }
    let profiler = Profiler::builder()
        .deadline(Duration::from_secs(120))
        .frequency(997)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .pid(process.0.id())
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    (sampled(&profile, prefix), text)
}

/// Returns the samples of each function in a profile.
fn sampled(profile: &Profile, prefix: &str) -> Values {
    let mut counts = Values::default();
    for sample in profile.samples() {
        let script = sample.trace().calls().filter(|call| call.kind() == Kind::Script).last();
        let name = script.map(|call| call.to_string()).unwrap_or_default();
        add(&mut counts, name.strip_prefix(prefix), sample.count() as f64);
    }
    counts
}

/// Parses `FUNCTION<TAB>VALUE` lines; those of other functions are skipped.
pub fn parse(text: &str, prefix: &str) -> Values {
    let mut values = Values::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once('\t')) {
        add(&mut values, name.strip_prefix(prefix), value.parse().unwrap_or_default());
    }
    values
}

fn add(values: &mut Values, function: Option<&str>, value: f64) {
    if let Some(index) = FUNCTIONS.iter().position(|known| Some(*known) == function) {
        values[index] += value;
    }
}

/// Returns chi-squared of two lists of counts for the hypothesis that their shares are the same.
pub fn of_counts(first: &Values, second: &Values) -> f64 {
    let [all_first, all_second] = [first, second].map(|counts| counts.iter().sum::<f64>());
    let both: Vec<f64> = first.iter().zip(second).map(|(first, second)| first + second).collect();
    let shares =
        |all: f64| -> Vec<f64> { both.iter().map(|both| both * all / (all_first + all_second)).collect() };
    of_expected(first, &shares(all_first)) + of_expected(second, &shares(all_second))
}

/// Returns chi-squared of counts for the hypothesis that they have these shares.
pub fn of_shares(counts: &Values, shares: &Values) -> f64 {
    let [all, whole] = [counts, shares].map(|values| values.iter().sum::<f64>());
    let expected: Vec<f64> = shares.iter().map(|share| share * all / whole).collect();
    of_expected(counts, &expected)
}

fn of_expected(counts: &Values, expected: &[f64]) -> f64 {
    counts.iter().zip(expected).map(|(count, expected)| (count - expected).powi(2) / expected).sum()
}

#[test]
fn finds_different_shares() {
    let steady = [1000.0, 2000.0, 3000.0, 4000.0];
    assert!(of_counts(&steady, &[12.0, 18.0, 33.0, 37.0]) < CHANCE);
    assert!(of_counts(&steady, &[22.0, 18.0, 33.0, 27.0]) > CHANCE);
    assert!(of_shares(&steady, &[0.1, 0.2, 0.3, 0.4]) < 1e-9);
    assert!(of_shares(&steady, &[0.115, 0.185, 0.3, 0.4]) > CHANCE);
    assert_eq!(
        parse("main::first\t5\nfirst\t7\nmain::other\t9\nmain::third\t0.5", "main::"),
        [5.0, 0.0, 0.5, 0.0]
    );
}
