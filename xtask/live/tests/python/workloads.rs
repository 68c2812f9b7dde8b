//! The workloads, each under every interpreter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use crate::comparison::{Comparison, Rules};
use crate::expected::{Expected, expected};
use crate::interpreter::{self, Interpreter, Version};
use crate::profiler::profile;
use crate::seen::{Stack, stacks};
use crate::skeleton::{self, Skeletons};
use crate::workload::Running;
use live_suite::selection::{is_matrix, is_wanted};
use live_suite::workload::load::{self, Load};

/// A workload and its properties.
#[derive(Clone, Debug)]
struct Case {
    name: &'static str,
    program: &'static str,
    arguments: Vec<&'static str>,
    /// Argument of the run that reports the chain, if that is another run than the profiled one.
    learn_from: Option<&'static str>,
    /// Number of threads that print their chain.
    chains: usize,
    moves: bool,
    since: (u32, u32),
}

/// Profiling time of all workloads together, in seconds, unless `TRUTH_SECONDS` is set; and that of
/// the matrix.
const SECONDS: f64 = 8.0;
const MATRIX_SECONDS: f64 = 20.0;
/// Minimum number of exact samples, of 1,000.
const PER_MILLE: u64 = 995;

fn cases() -> Vec<Case> {
    vec![
        case("recursion_20", "recursion.py 20"),
        case("recursion_100", "recursion.py 100"),
        case("recursion_900", "recursion.py 900"),
        case("sorted", "callbacks.py sorted"),
        case("reduce", "callbacks.py reduce"),
        case("map_and_filter", "callbacks.py map filter"),
        case("regex", "callbacks.py regex"),
        case("json", "callbacks.py json json_reader"),
        case("c_that_calls_back", "callbacks.py sort_of_objects min partial join"),
        case("foreign_code", "callbacks.py foreign_code"),
        case("slots", "callbacks.py call attribute property item operator initializer finalizer metaclass"),
        case("evaluated", "callbacks.py eval code"),
        case(
            "tower",
            "callbacks.py sorted map reduce regex json partial call attribute eval finalizer code min operator",
        ),
        case("classes", "classes.py"),
        case("generators", "generators.py"),
        case("delegates", "delegates.py").since(3, 3),
        case("coroutines", "coroutines.py").since(3, 6),
        case("names", "names.py").since(3, 0),
        case("imports", "imports.py"),
        case("signals", "signals.py"),
        case("tracing", "tracing.py"),
        case("threads", "threads.py").chains(4),
        case("unlocked", "unlocked.py").chains(2),
        case("processes", "processes.py").chains(2),
        case("forks", "forks.py").learn_from("stay").moves(),
        case("exceptions", "exceptions.py").moves(),
    ]
}

fn case(name: &'static str, line: &'static str) -> Case {
    let mut words = line.split(' ');
    Case {
        name,
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        learn_from: None,
        chains: 1,
        moves: false,
        since: (2, 7),
    }
}

impl Case {
    fn chains(self, chains: usize) -> Case {
        Case { chains, ..self }
    }

    fn since(self, major: u32, minor: u32) -> Case {
        Case { since: (major, minor), ..self }
    }

    fn moves(self) -> Case {
        Case { moves: true, ..self }
    }

    fn learn_from(self, argument: &'static str) -> Case {
        Case { learn_from: Some(argument), ..self }
    }

    fn start(&self, interpreter: &Interpreter, arguments: &[&str], chains: usize) -> Running {
        let mut command = interpreter.command(self.program);
        command.args(arguments);
        Running::start(command, chains)
    }
}

/// Runs all chains under all interpreters, prints a table, and fails if one of them isn't good.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain() {
    test_needs::root!();
    test_needs::programs!("gdb");
    test_needs::file!(interpreter::target().join("fixtures/python/list"), "cargo xtask pythons");
    let cases: Vec<_> = cases().into_iter().filter(|case| is_wanted(case.name)).collect();
    let interpreters = interpreter::chosen(|_| true);
    let mut table: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let (mut failures, mut news) = (String::new(), String::new());
    for interpreter in &interpreters {
        let mut outcomes = run(&cases, interpreter);
        look_again(&cases, interpreter, &mut outcomes);
        for case in &cases {
            let shown = match outcomes.get(case.name) {
                None => String::new(),
                Some(Err(reason)) => {
                    news += &format!("\n{} under {}: {reason}", case.name, interpreter.name);
                    "?".to_owned()
                }
                Some(Ok(comparison)) => {
                    if !comparison.is_good(PER_MILLE) {
                        news += &format!("\n{} under {}: {comparison}", case.name, interpreter.name);
                    }
                    format!("{:.1} {:.1}", comparison.share() * 100.0, comparison.share_of_known() * 100.0)
                }
            };
            table.entry(case.name).or_default().push(shown);
        }
        failures += &news;
        for (case, outcome) in &outcomes {
            let (exact, samples) = outcome.as_ref().map_or((0, 0), |found| (found.exact, found.samples));
            share(&interpreter.name, case, exact, samples);
        }
        let outcomes =
            outcomes.iter().filter_map(|(name, outcome)| Some((name, outcome.as_ref().ok()?.share())));
        let shares: Vec<_> = outcomes.map(|(name, share)| format!("{name} {:.2}", share * 100.0)).collect();
        println!("{}: {}{}", interpreter.name, shares.join(", "), std::mem::take(&mut news));
    }
    println!(
        "% exact of all samples; of those since the process was known\n{:<18}{}",
        "",
        row(interpreters.iter().map(|each| each.name.as_str()))
    );
    for case in &cases {
        println!("{:<18}{}", case.name, row(table[case.name].iter().map(String::as_str)));
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Takes longer than CI has.
mod matrix {
    use super::*;

    /// Forked children of CPython 3.8, which have no thread state at first, beside 30 busy
    /// programs.
    #[test]
    #[ignore = "profiles: needs root"]
    fn forks_on_a_busy_machine() {
        const PER_MILLE: u64 = 999;
        test_needs::root!();
        test_needs::programs!("gcc", "g++", "gdb");
        test_needs::file!(interpreter::target().join("fixtures/python/list"), "cargo xtask pythons");
        let mut cases = cases();
        cases.retain(|case| case.name == "forks");
        load::make_ordinary();
        let _load = Load::start(Path::new(env!("CARGO_TARGET_TMPDIR")), 30, 170);
        let is_3_8 = |version: Version| version.is_before(3, 9) && !version.is_before(3, 8);
        for interpreter in interpreter::chosen(|each| is_3_8(each.version())) {
            for outcome in run(&cases, &interpreter).into_values() {
                let comparison = outcome.unwrap();
                share(&interpreter.name, "forks, busy", comparison.exact, comparison.samples);
                println!("{comparison}");
                assert!(comparison.is_good(PER_MILLE), "{comparison}");
            }
        }
    }
}

/// Prints a cell of the table of `cargo xtask matrix`.
fn share(version: &str, test: &str, exact: u64, samples: u64) {
    println!("share\tpython\t{version}\t{test}\t{exact}\t{samples}");
}

fn row<'s>(cells: impl Iterator<Item = &'s str>) -> String {
    cells.map(|cell| format!(" {cell:>13}")).collect()
}

/// Comparisons by case, or the reason for which there is none.
type Outcomes = BTreeMap<&'static str, Result<Comparison, String>>;

/// Takes the same number of samples again for each case that isn't good, and compares both together:
/// the bound is five wrong samples of a thousand, and chance alone makes five of two.
fn look_again(cases: &[Case], interpreter: &Interpreter, outcomes: &mut Outcomes) {
    let is_unclear = |case: &&Case| matches!(&outcomes.get(case.name), Some(Ok(comparison)) if !comparison.is_good(PER_MILLE));
    let unclear: Vec<Case> = cases.iter().filter(is_unclear).cloned().collect();
    if unclear.is_empty() {
        return;
    }
    for (name, again) in run(&unclear, interpreter) {
        if let (Some(Ok(comparison)), Ok(again)) = (outcomes.get_mut(name), again) {
            comparison.add(again);
        }
    }
}

/// Runs the workloads at the same time under one interpreter.
fn run(cases: &[Case], interpreter: &Interpreter) -> Outcomes {
    let version = interpreter.version();
    let cases: Vec<_> = cases.iter().filter(|case| !version.is_before(case.since.0, case.since.1)).collect();
    let start = std::time::Instant::now();
    let progress =
        |what: &str| eprintln!("{} {what} after {:.1} s", interpreter.name, start.elapsed().as_secs_f64());
    let learners: BTreeMap<_, _> = cases
        .iter()
        .filter_map(|case| Some((case.name, case.start(interpreter, &[case.learn_from?], case.chains))))
        .collect();
    let skeletons_of_learners = look(learners.values(), interpreter);
    let expected_of = |running: &Running, skeletons: &Skeletons| learn(running, skeletons, interpreter);
    let learnt: BTreeMap<_, _> = learners
        .iter()
        .map(|(name, running)| (*name, expected_of(running, &skeletons_of_learners)))
        .collect();
    drop(learners);

    let started: Vec<Running> = cases
        .iter()
        .map(|case| {
            let chains = if case.learn_from.is_some() { 0 } else { case.chains };
            let running = case.start(interpreter, &case.arguments, chains);
            // A stopped workload doesn't slow down the others.
            running.signal("STOP");
            running
        })
        .collect();
    progress("started");
    let pids: Vec<u32> = started.iter().map(Running::pid).collect();
    started.iter().for_each(|running| running.signal("CONT"));
    let (profile, ()) = profile(&pids, || {
        std::thread::sleep(duration());
        started.iter().for_each(|running| running.signal("STOP"));
    });
    let stacks = stacks(&profile);
    progress("profiled");
    let skeletons = look(started.iter(), interpreter);
    progress("looked at");

    let own: Vec<BTreeSet<u32>> = started.iter().map(Running::pids).collect();
    let mut comparisons = BTreeMap::new();
    for ((case, running), pids) in cases.iter().zip(&started).zip(&own) {
        let is_anyones = |stack: &&Stack| own.iter().any(|pids| pids.contains(&stack.pid));
        let is_own =
            |stack: &&Stack| pids.contains(&stack.pid) || (case.learn_from.is_some() && !is_anyones(stack));
        let own: Vec<Stack> = stacks.iter().filter(is_own).cloned().collect();
        let threads = match learnt.get(case.name) {
            // Every process runs the same chain.
            Some(learnt) => {
                learnt.clone().map(|threads| threads.into_values().map(|stack| (0, stack)).collect())
            }
            None => patiently(expected_of(running, &skeletons), |pause| {
                running.signal("CONT");
                std::thread::sleep(pause);
                running.signal("STOP");
                expected_of(running, &look([running].into_iter(), interpreter))
            }),
        };
        let comparison =
            threads.map(|threads| Rules { version, threads, moves: case.moves }.compare_all(&own));
        comparisons.insert(case.name, comparison);
    }
    comparisons
}

/// Retries `attempt` with growing delays: gdb fails while a program moves or a thread still waits
/// for the interpreter's lock.
fn patiently<T>(
    first: Result<T, String>,
    again: impl Fn(Duration) -> Result<T, String>,
) -> Result<T, String> {
    let pauses = (1..10).map(|tenths| Duration::from_millis(tenths * 100));
    pauses.fold(first, |found, pause| found.or_else(|_| again(pause)))
}

/// Returns gdb's stacks of all threads that have printed their chain.
fn look<'r>(running: impl Iterator<Item = &'r Running>, interpreter: &Interpreter) -> Skeletons {
    let pids: BTreeSet<u32> =
        running.flat_map(|running| running.chains.iter().map(|chain| chain.pid)).collect();
    if pids.is_empty() {
        return Skeletons::new();
    }
    let pids: Vec<u32> = pids.into_iter().collect();
    skeleton::ask(&pids, &interpreter.file(&interpreter.program), interpreter)
}

/// Returns the expected stacks of all threads that have printed their chain.
fn learn(
    running: &Running,
    skeletons: &Skeletons,
    interpreter: &Interpreter,
) -> Result<BTreeMap<u32, Vec<Expected>>, String> {
    let version = interpreter.version();
    let none = Vec::new();
    let stack = |tid: u32| skeletons.get(&tid).unwrap_or(&none);
    running.chains.iter().map(|chain| Ok((chain.tid, expected(chain, stack(chain.tid), version)?))).collect()
}

/// Returns the profiling time of the workloads.
fn duration() -> Duration {
    let seconds = std::env::var("TRUTH_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let default = if is_matrix() { MATRIX_SECONDS } else { SECONDS };
    Duration::from_secs_f64(seconds.unwrap_or(default))
}
