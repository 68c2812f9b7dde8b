//! Stacks compared with CPython's own map of trampolines (`-X perf`, from 3.12 on).
//!
//! With this option each Python function is called through a trampoline generated at run time and
//! named in `/tmp/perf-PID.map`:
//!
//! ```text
//!   7f39548c27a6 b py::C.f:/srv/a.py
//! ```
//!
//! A native stack therefore shows all calls: next to each Python frame, on the root's side of the
//! loop that runs it, is an address with the name of this function in the map. The frames read from
//! the interpreter's memory have to equal these names, call by call, from the outermost to the
//! leaf. The last call may be in one of the two only, while it begins or ends.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use live_suite::selection::is_matrix;

use crate::interpreter::{self, Interpreter};
use crate::profiler::profile;
use crate::seen::{Seen, Stack, stacks};
use crate::workload::Running;

/// Profiling time of each workload in seconds, in the matrix and elsewhere.
const SECONDS: u64 = 2;
const MATRIX_SECONDS: u64 = 5;
const PER_MILLE: u64 = 995;

/// Workloads, each with a kind of call that many others lack.
const WORKLOADS: &[&[&str]] = &[
    &["mix.py"],
    &[
        "callbacks.py",
        "sorted",
        "map",
        "reduce",
        "regex",
        "json",
        "partial",
        "call",
        "attribute",
        "eval",
        "min",
    ],
    &["recursion.py", "100"],
    &["generators.py"],
    &["coroutines.py"],
    &["names.py"],
];

/// Comparison of the samples of one run.
#[derive(Clone, Debug, Default)]
struct Outcome {
    samples: u64,
    trampolines: u64,
    same: u64,
    cut: u64,
    /// Differences, with their number and the first such stack.
    differences: BTreeMap<String, (u64, String)>,
}

fn run(interpreter: &Interpreter, workload: &[&str]) -> Outcome {
    let mut command = interpreter.command(workload[0]);
    command.args(&workload[1..]).env("PYTHONPERFSUPPORT", "1");
    let running = Running::start(command, usize::from(workload[0] != "mix.py"));
    let (profile, ()) = profile(&[running.pid()], || {
        std::thread::sleep(Duration::from_secs(if is_matrix() { MATRIX_SECONDS } else { SECONDS }));
        running.signal("STOP");
    });
    let path = interpreter.file(&format!("/tmp/perf-{}.map", running.pid()));
    let map = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    fs::remove_file(&path).unwrap();
    compare(&stacks(&profile), &Map::parse(&map))
}

fn compare(stacks: &[Stack], map: &Map) -> Outcome {
    let mut outcome = Outcome::default();
    for stack in stacks.iter().filter(|stack| !stack.frames.is_empty()) {
        outcome.samples += stack.count;
        let trampolines: Vec<&str> = stack.frames.iter().filter_map(|seen| map.name(seen)).collect();
        outcome.trampolines += trampolines.len() as u64 * stack.count;
        if let Some(stop) = &stack.truncated {
            outcome.cut += stack.count;
            outcome.note(&format!("cut: {stop}"), stack);
        } else if let Err(difference) = same(&calls(stack), &trampolines) {
            outcome.note(&difference, stack);
        } else {
            outcome.same += stack.count;
        }
    }
    outcome
}

/// Returns the Python frames under the names that the map uses, root first.
fn calls(stack: &Stack) -> Vec<String> {
    let call = |seen: &Seen| match seen {
        Seen::Python { name, file, .. } => Some(format!("{name}:{file}")),
        _ => None,
    };
    stack.frames.iter().filter_map(call).collect()
}

/// Compares both chains, except for the last call, which may be in one of them only.
fn same(calls: &[String], trampolines: &[&str]) -> Result<(), String> {
    let shorter = calls.len().min(trampolines.len());
    if calls.len().abs_diff(trampolines.len()) > 1 {
        return Err(format!("{} calls, {} trampolines", calls.len(), trampolines.len()));
    }
    match (0..shorter).find(|&at| calls[at] != trampolines[at]) {
        Some(at) => Err(format!("{} is called through the trampoline of {}", calls[at], trampolines[at])),
        None => Ok(()),
    }
}

impl Outcome {
    fn note(&mut self, difference: &str, stack: &Stack) {
        let frames = || stack.frames.iter().map(Seen::to_string).collect::<Vec<_>>().join(" ");
        self.differences.entry(difference.to_owned()).or_insert_with(|| (0, frames())).0 += stack.count;
    }

    fn shown(&self) -> String {
        let mut differences: Vec<_> = self.differences.iter().collect();
        differences.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        let show =
            |(what, (count, stack)): &(&String, &(u64, String))| format!("\n  {count} {what}\n    {stack}");
        differences.iter().take(5).map(show).collect()
    }
}

/// Functions of the trampolines, by start address.
#[derive(Debug)]
struct Map(BTreeMap<u64, (u64, String)>);

impl Map {
    fn parse(text: &str) -> Map {
        let line = |line: &str| {
            let (start, rest) = line.split_once(' ')?;
            let (size, name) = rest.split_once(' ')?;
            let [start, size] =
                [start, size].map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
            Some((start.ok()?, (size.ok()?, name.strip_prefix("py::")?.to_owned())))
        };
        Map(text.lines().filter_map(line).collect())
    }

    /// Returns the function of the trampoline that a frame is in.
    fn name(&self, seen: &Seen) -> Option<&str> {
        let Seen::Nowhere { address } = *seen else { return None };
        let (start, (size, name)) = self.0.range(..=address).next_back()?;
        (address - start < *size).then_some(name)
    }
}

#[test]
fn trampolines_are_found_by_the_addresses_in_them() {
    let map = Map::parse("7f10 b py::f:/a b.py\nnonsense\n0x7f20 b py::<module>:/c.py\n7f30 b lj::x:/c.py\n");
    let name = |address| map.name(&Seen::Nowhere { address });
    assert_eq!((name(0x7f16), name(0x7f2a)), (Some("f:/a b.py"), Some("<module>:/c.py")));
    assert_eq!((name(0x7f1b), name(0x7f0f), name(0x7f31)), (None, None, None));
}

#[test]
fn only_the_last_call_may_be_on_its_way() {
    let calls = ["a", "b"].map(str::to_owned);
    assert!(same(&calls, &["a", "b"]).is_ok());
    assert!(same(&calls, &["a"]).is_ok());
    assert!(same(&calls, &["a", "b", "c"]).is_ok());
    assert!(same(&calls, &["a", "c"]).is_err());
    assert!(same(&calls, &["b"]).is_err());
    assert!(same(&calls, &["a", "b", "c", "d"]).is_err());
}

/// Against CPython's own trampolines.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root, and an interpreter of 3.12 or later"]
    fn calls_are_those_of_the_trampolines() {
        test_needs::root!();
        test_needs::file!(interpreter::target().join("fixtures/python/list"), "cargo xtask pythons");
        let (mut failures, mut tried) = (String::new(), 0);
        let mut interpreters = interpreter::chosen(|each| !each.version().is_before(3, 12));
        if !is_matrix() {
            interpreters.drain(..interpreters.len() - 1);
        }
        for interpreter in interpreters {
            for workload in WORKLOADS {
                tried += 1;
                let outcome = run(&interpreter, workload);
                println!(
                    "{:<14} {:<16} {} samples, {} trampolines met, {} the same, {} cut{}",
                    interpreter.name,
                    workload[0],
                    outcome.samples,
                    outcome.trampolines,
                    outcome.same,
                    outcome.cut,
                    outcome.shown()
                );
                println!(
                    "share\tpython\t{}\ttrampolines {}\t{}\t{}",
                    interpreter.name, workload[0], outcome.same, outcome.samples
                );
                if outcome.same * 1000 < outcome.samples * PER_MILLE || outcome.trampolines == 0 {
                    failures += &format!("\n{} {}: {}", interpreter.name, workload[0], outcome.shown());
                }
            }
        }
        assert!(failures.is_empty(), "{failures}");
        assert!(tried > 0, "no interpreter of 3.12 or later");
    }
}
