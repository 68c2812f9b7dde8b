//! `cargo xtask test`: everything that a user can run.

use std::process::Command;

use crate::run::{Outcome, cargo, command, output, run, watch};
use crate::tally::{Tally, is_skipped};

/// Runs all steps, whatever becomes of one.
pub(crate) fn task(_: &[String]) -> Outcome {
    let mut tally = Tally::default();
    steps(&mut tally);
    tally.close()
}

/// The steps, for the tasks that have more of them.
pub(crate) fn steps(tally: &mut Tally) {
    tally.step("format", |_| run(&mut cargo(&["fmt", "--all", "--check"])));
    tally.step("lints", |_| {
        run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    tally.step("core alone", |_| {
        run(&mut cargo(&["check", "-p", "ebpf-profiler-core", "--no-default-features", "--lib"]))
    });
    tally.step("encoder alone", |_| {
        run(&mut cargo(&["check", "-p", "ebpf-profiler-otlp", "--no-default-features", "--lib"]))
    });
    tally.step("exporter alone", |_| {
        let http =
            ["check", "-p", "ebpf-profiler-otlp", "--no-default-features", "--features", "http", "--lib"];
        run(&mut cargo(&http))
    });
    tally.step("layers", |_| crate::layers::task(&[]));
    tally.step("documentation", |_| {
        run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
    });
    tally.step("tests", |summaries| tests(cargo(&["test", "--workspace", "--no-fail-fast"]), summaries));
    if is_root() {
        tally.step("live tests", |summaries| tests(cargo(LIVE), summaries));
    } else {
        tally.skip(
            "live tests",
            "they profile, which needs root: sudo -E env PATH=\"$PATH\" cargo xtask test",
        );
    }
}

/// Tests that profile are marked as ignored; two at a time would disturb each other.
const LIVE: &[&str] = &[
    "test",
    "--release",
    "--workspace",
    "--no-fail-fast",
    "--lib",
    "--bins",
    "--tests",
    "--",
    "--ignored",
    "--test-threads=1",
    "--nocapture",
];

/// Runs tests and keeps the lines with which they close.
fn tests(mut command: Command, summaries: &mut Vec<String>) -> Outcome {
    watch(&mut command, |line| summaries.extend(summary(line)))
}

/// A closing line, unless nothing was run; or why a test, whose name stands before, had nothing to test.
fn summary(line: &str) -> Option<String> {
    if is_skipped(line) {
        return Some(line.to_owned());
    }
    let counts = line.strip_prefix("test result: ")?;
    (!counts.contains(" 0 passed; 0 failed; ")).then(|| line.to_owned())
}

fn is_root() -> bool {
    output(&mut command(&["id", "-u"])).is_ok_and(|id| id.trim() == "0")
}

#[test]
fn closing_lines_are_kept() {
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
