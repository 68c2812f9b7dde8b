//! Cases that are profiled together: one run of the profiler looks at several programs.
//!
//! ```text
//! each case     built, asked of gdb                        two at a time
//! eight cases   started, profiled together, compared by the name that each program runs under
//! one case      profiled alone if it wasn't good; both runs count
//! ```
//!
//! The first test that asks runs all that were selected on the command line; the others find their
//! comparisons.

use std::collections::BTreeMap;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use crate::case::{Case, Ready};
use crate::compare::Comparison;

/// Programs that are profiled together.
const TOGETHER: usize = 8;

/// A comparison, or the message of the panic in its place.
type Outcome = Result<Comparison, String>;

type Named = (&'static str, Case);

/// Fails if the case of this name isn't good.
#[expect(clippy::print_stdout, reason = "`cargo xtask matrix` reads these lines")]
pub(crate) fn check(name: &str, cases: fn() -> Vec<Named>) {
    static OUTCOMES: OnceLock<BTreeMap<&'static str, Outcome>> = OnceLock::new();
    let outcomes = OUTCOMES.get_or_init(|| {
        let arguments: Vec<String> = env::args().skip(1).collect();
        run(cases().into_iter().filter(|(name, _)| is_selected(name, &arguments)).collect())
    });
    let outcome = outcomes.get(name).unwrap_or_else(|| fail(name, "it was not selected"));
    match outcome {
        Ok(comparison) => {
            println!("share\ttruth\tnative\t{name}\t{}\t{}", comparison.exact, comparison.samples);
            println!("{name:<28} {comparison}");
            assert!(comparison.is_good(), "{name}: {comparison}");
        }
        Err(message) => fail(name, message),
    }
}

/// Returns `true` if the test runner runs the case of this name, given its arguments.
fn is_selected(name: &str, arguments: &[String]) -> bool {
    let name = format!("chains::{name}");
    let (mut filters, mut skipped) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--skip" => skipped.extend(rest.next()),
            "--test-threads" | "--format" | "--color" | "--logfile" | "-Z" => _ = rest.next(),
            option if option.starts_with('-') => {}
            _ => filters.push(argument),
        }
    }
    let is_exact = arguments.iter().any(|argument| argument == "--exact");
    let matches = |filter: &&String| if is_exact { name == **filter } else { name.contains(filter.as_str()) };
    (filters.is_empty() || filters.iter().any(matches)) && !skipped.iter().any(matches)
}

fn run(cases: Vec<Named>) -> BTreeMap<&'static str, Outcome> {
    let mut outcomes = BTreeMap::new();
    let mut ready = Vec::new();
    for (name, prepared) in prepare(cases) {
        match prepared {
            Ok(case) => ready.push((name, case)),
            Err(message) => _ = outcomes.insert(name, Err(message)),
        }
    }
    for group in groups(&ready) {
        let cases: Vec<&Ready> = group.iter().map(|(_, case)| case).collect();
        let comparisons = caught(|| Ready::profile(&cases));
        for (at, (name, case)) in group.iter().enumerate() {
            let first = comparisons.as_ref().map(|comparisons| comparisons[at].clone()).map_err(Clone::clone);
            outcomes.insert(name, first.and_then(|comparison| again(case, comparison)));
        }
    }
    outcomes
}

/// Divides cases into those that are profiled together. Programs of one build, which have one build
/// id, are in different groups: the profiler takes their files for one.
fn groups<'r>(ready: &'r [(&'static str, Ready)]) -> Vec<Vec<&'r (&'static str, Ready)>> {
    let mut groups: Vec<Vec<&'r (&'static str, Ready)>> = Vec::new();
    for case in ready {
        let has_room = |group: &&mut Vec<&'r (&'static str, Ready)>| {
            group.len() < TOGETHER && group.iter().all(|(_, other)| other.goes_with(&case.1))
        };
        match groups.iter_mut().find(has_room) {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    groups
}

/// Profiles a case alone if a first comparison isn't good, and compares both runs together.
fn again(case: &Ready, mut comparison: Comparison) -> Outcome {
    if !comparison.is_good() {
        let second = caught(|| Ready::profile(&[case]))?;
        second.into_iter().for_each(|second| comparison.add(second));
    }
    Ok(comparison)
}

/// Builds the programs and asks gdb about them, two at a time.
fn prepare(cases: Vec<Named>) -> Vec<(&'static str, Result<Ready, String>)> {
    let numbered = Mutex::new(cases.into_iter().enumerate());
    let prepared = Mutex::new(Vec::new());
    let next = || numbered.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((number, (name, case))) = next() {
            let ready = caught(|| case.prepare(&name.replace("::", "_"), number));
            prepared.lock().unwrap_or_else(PoisonError::into_inner).push((number, name, ready));
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let mut prepared = prepared.into_inner().unwrap_or_else(PoisonError::into_inner);
    prepared.sort_by_key(|(number, ..)| *number);
    prepared.into_iter().map(|(_, name, ready)| (name, ready)).collect()
}

/// Returns the message of a panic as an error: it fails the case at hand, not those beside it.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
    })
}

#[expect(clippy::panic, reason = "the case has failed")]
fn fail(name: &str, message: &str) -> ! {
    panic!("{name}: {message}")
}

#[test]
fn selects_as_the_test_runner_does() {
    let selected = |line: &str| {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ["c", "c_static", "signal"]
            .into_iter()
            .filter(|name| is_selected(name, &arguments))
            .collect::<Vec<_>>()
    };
    assert_eq!(selected("--ignored --test-threads 1 --nocapture"), ["c", "c_static", "signal"]);
    assert_eq!(selected("chains::c --ignored"), ["c", "c_static"]);
    assert_eq!(selected("chains::c --exact"), ["c"]);
    assert_eq!(selected("--skip static --ignored"), ["c", "signal"]);
    assert_eq!(selected("static signal"), ["c_static", "signal"]);
}
