//! Shares of functions in a profile, and those that the language's own profiler finds in the same
//! run.
//!
//! Counts have the shares that another profiler found if chi-squared is below that of chance in 1
//! of 1,000 runs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use ebpf_profiler_core::profile::{Kind, Profile};

use crate::process::Process;
use crate::sampled::{FREQUENCY, profiler};

/// The functions that the programs spend their time in.
const FUNCTIONS: [&str; 4] = ["first", "second", "third", "fourth"];

/// Values of the functions.
pub type Values = [f64; FUNCTIONS.len()];

/// Profiles a program from the line "ready" to its end. Returns the samples of each function, whose
/// name begins with `prefix`, and the further output.
pub fn run(mut command: Command, prefix: &str) -> (Values, String) {
    let mut process = Process::start(command.stdin(Stdio::null()).stdout(Stdio::piped()));
    let mut output = BufReader::new(process.0.stdout.take().unwrap());
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "{command:?} ended before it was ready");
    }
    let profiler = profiler([process.id()], FREQUENCY);
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

#[test]
fn adds_values_of_the_functions() {
    assert_eq!(
        parse("main::first\t5\nfirst\t7\nmain::other\t9\nmain::third\t0.5", "main::"),
        [5.0, 0.0, 0.5, 0.0]
    );
}
