//! `cargo xtask test`: the tests that every machine can run, in at most ten minutes.

use std::process::Command;

use test_needs::{TOOLS, Tool};

use crate::run::{Outcome, cargo, run, watch};
use crate::tally::{Tally, is_skipped};
use crate::{debian, layers, words};

/// Installs programs that tests need, where that is possible, and runs all steps.
pub(crate) fn task(_: &[String]) -> Outcome {
    let mut tally = Tally::default();
    tally.step("programs", |_| {
        prepare();
        Ok(())
    });
    steps(&mut tally);
    live(&mut tally, QUICK);
    tally.close()
}

/// The steps that need no privilege, for the tasks that have more of them.
pub(crate) fn steps(tally: &mut Tally) {
    tally.step("format", |_| run(&mut cargo(&["fmt", "--all", "--check"])));
    tally.step("lints", |_| {
        run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    tally.step("layers", |_| layers::task(&[]));
    tally.step("words", |_| words::task(&[]));
    tally.step("documentation", |_| {
        run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
    });
    tally.step("tests", |summaries| tests(cargo(&["test", "--workspace", "--no-fail-fast"]), summaries));
}

/// The tests that profile this machine.
pub(crate) fn live(tally: &mut Tally, parts: &[&[&str]]) {
    if !test_needs::is_root() {
        let why = "they profile, which needs root: sudo -E env PATH=\"$PATH\" cargo xtask test";
        return tally.skip("live tests", why);
    }
    for part in parts {
        let line = [&["test", "--no-fail-fast"], *part, ONE_BY_ONE].concat();
        tally.step("live tests", |summaries| tests(cargo(&line), summaries));
    }
}

/// Live tests that take minutes in all.
const QUICK: &[&[&str]] = &[&[
    "--release",
    "-p",
    "examples",
    "--test",
    "account",
    "--test",
    "cpus",
    "--test",
    "replay",
    "--test",
    "stripped",
    "--test",
    "truth",
]];

/// All live tests. Those of the examples measure a profiler as it is used, with optimizations; the others run in the
/// profile of the other tests, which saves a second build.
pub(crate) const ALL: &[&[&str]] = &[
    &["--workspace", "--exclude", "examples", "--exclude", "benches", "--lib", "--bins", "--tests"],
    &["--release", "-p", "examples", "--lib", "--bins", "--tests"],
];

/// Tests that profile are marked as ignored; two at a time would disturb each other. Those of versions between the oldest
/// and the newest are for `cargo xtask matrix`, those that need optimizations for `cargo xtask ci`.
const ONE_BY_ONE: &[&str] =
    &["--", "--ignored", "--test-threads=1", "--nocapture", "--skip", "matrix::", "--skip", "optimized::"];

/// Installs missing programs as root on Debian and Ubuntu, and elsewhere prints the command.
fn prepare() {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| test_needs::find(tool.program).is_none()).collect();
    if missing.is_empty() {
        return;
    }
    let packages = packages(&missing);
    eprintln!("missing programs that tests run:");
    for tool in &missing {
        eprintln!("  {:<24} {:<24} {}", tool.program, tool.package, tool.purpose);
    }
    if test_needs::find("apt-get").is_none() {
        return eprintln!("tests that need one of them are skipped");
    }
    if !test_needs::is_root() {
        eprintln!("tests that need one of them are skipped; to run them, first:");
        return eprintln!("  sudo apt-get install --no-install-recommends {}", packages.join(" "));
    }
    eprintln!("installing: apt-get install --no-install-recommends {}", packages.join(" "));
    if let Err(reason) = debian::install_available(&packages) {
        eprintln!("{reason}; tests that need one of them are skipped");
    }
}

/// The packages of these programs, each once.
fn packages(tools: &[&Tool]) -> Vec<&'static str> {
    let mut packages: Vec<_> = tools.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Runs tests and keeps the lines with which they close.
pub(crate) fn tests(mut command: Command, summaries: &mut Vec<String>) -> Outcome {
    watch(&mut command, |line| summaries.extend(summary(line)))
}

/// Returns a closing line, unless no test was run, or the line of a skipped test, with or without the test's name before
/// it.
fn summary(line: &str) -> Option<String> {
    if is_skipped(line) {
        return Some(line.to_owned());
    }
    let counts = line.strip_prefix("test result: ")?;
    (!counts.contains(" 0 passed; 0 failed; ")).then(|| line.to_owned())
}

#[test]
fn keeps_closing_lines() {
    let line =
        "test result: ok. 18 passed; 0 failed; 51 ignored; 0 measured; 0 filtered out; finished in 0.10s";
    assert_eq!(summary(line).as_deref(), Some(line));
    assert_eq!(summary("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out"), None);
    assert_eq!(summary("test chains::c ... ok"), None);
    for line in ["test go_1_19 ... skipped: no Go 1.19", "skipped: no Go 1.19"] {
        assert_eq!(summary(line).as_deref(), Some(line));
    }
    assert_eq!(summary("test source ... SymbolStats { sections_skipped: 0 }"), None);
}

#[test]
fn names_each_package_once() {
    let all: Vec<&Tool> = TOOLS.iter().collect();
    let packages = packages(&all);
    assert!(packages.windows(2).all(|pair| pair[0] < pair[1]) && packages.len() < all.len());
}
