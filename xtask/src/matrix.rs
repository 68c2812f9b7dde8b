//! `cargo xtask matrix`: the live tests of every language under every version that can be had, at length.
//!
//! Tests print a line for each version and chain; the task prints a table of them:
//!
//! ```text
//! share  python  pyenv-2.7.18  sorted  1520  1521
//!
//! language  version         exact %   samples  least
//! python    pyenv-2.7.18      99.95     39712  99.41 % forks
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use crate::crates::Extent;
use crate::run::{Outcome, cargo, run, watch};
use crate::tally::{STEP, Tally};
use crate::test::LIVE_SUITE;
use crate::{binaries, collector, crates, fixtures, pythons};

/// The variable by which tests take all versions.
const VARIABLE: &str = "TRUTH_MATRIX";

/// The tests of libraries that read programs of several versions.
const LIBRARIES: &[&str] =
    &["test", "--release", "-p", "ebpf-profiler-hll", "--lib", "matrix::", "--", "--ignored"];

/// The tests of rules that are derived from the code of all libraries.
const RULES: &[&str] =
    &["test", "--release", "-p", "ebpf-profiler-unwind", "--test", "derived_rules", "--", "--ignored"];

/// The live tests that are shorter without the variable, and `crates`, the checks of the libraries in full.
const ALL: &[&str] = &[
    "truth",
    "go",
    "go_labels",
    "hotspot",
    "python",
    "php",
    "perl",
    "ruby",
    "v8",
    "luajit",
    "beam",
    "dotnet",
    "derived",
    "reuse",
    "events",
    "snapshots",
    "hostile",
    "gone",
    "collector",
    "crates",
];

/// Languages whose fixtures may take longer to fetch than other steps.
const LARGE: &[&str] = &["hotspot", "v8", "dotnet"];

/// Longest time of a step.
const LIMIT: Duration = Duration::from_secs(6 * 3600);

/// Tests whose words are in the arguments, or all.
pub(crate) fn task(arguments: &[String]) -> Outcome {
    let named: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Some(other) = named.iter().find(|name| !ALL.contains(name)) {
        return Err(format!("{other} is none of {}", ALL.join(", ")));
    }
    let targets = if named.is_empty() { ALL } else { &named[..] };
    let mut tally = Tally::default();
    let mut table = Table::default();
    if targets.contains(&"collector") {
        tally.limited_step("collector", LIMIT, |_| collector::build().map(drop));
    }
    let is_needed = |name: &str| match name {
        "go" => targets.contains(&"go") || targets.contains(&"go_labels"),
        _ => targets.contains(&name) || targets.contains(&"reuse"),
    };
    for language in fixtures::LANGUAGES.iter().filter(|language| is_needed(language.name)) {
        let limit = if LARGE.contains(&language.name) { LIMIT } else { STEP };
        tally.limited_step(language.title, limit, |_| (language.fetch)(false));
    }
    if is_needed("python") {
        tally.limited_step("interpreters", LIMIT, |_| pythons::task(&[]));
    }
    if targets.contains(&"crates") {
        crates::steps(&mut tally, Extent::Full);
        tally.limited_step("libraries", LIMIT, |_| run(&mut cargo(LIBRARIES)));
        tally.limited_step("derived rules", LIMIT, |_| run(cargo(RULES).env(VARIABLE, "1")));
    }
    for target in targets.iter().filter(|target| **target != "crates") {
        tally.limited_step(target, LIMIT, |_| {
            let built = binaries::build(&[&["--release"], LIVE_SUITE, &["--test", target]].concat())?;
            let test = built.iter().find(|test| test.name == **target).ok_or("it is not built")?;
            let mut tests = test.command(&["--ignored", "--test-threads=1", "--nocapture"]);
            watch(tests.env(VARIABLE, "1"), |line| table.add(line))
        });
    }
    let outcome = tally.close();
    print(&table);
    outcome
}

/// Shares of exact stacks, by language and version.
#[derive(Debug, Default)]
struct Table(BTreeMap<(String, String), Row>);

#[derive(Debug, Default)]
struct Row {
    exact: u64,
    samples: u64,
    /// The test with the least share: its name, exact stacks, samples.
    least: Option<(String, u64, u64)>,
}

impl Table {
    /// Takes in `share<TAB>LANGUAGE<TAB>VERSION<TAB>TEST<TAB>EXACT<TAB>SAMPLES`; other lines are skipped.
    fn add(&mut self, line: &str) {
        // The name of the test may stand before it.
        let Some(at) = line.find("share\t") else { return };
        let [_, language, version, test, exact, samples] = line[at..].split('\t').collect::<Vec<_>>()[..]
        else {
            return;
        };
        let (Ok(exact), Ok(samples)) = (exact.parse(), samples.trim().parse()) else { return };
        let row = self.0.entry((language.to_owned(), version.to_owned())).or_default();
        row.exact += exact;
        row.samples += samples;
        let is_less = |(_, other, all): &(String, u64, u64)| percent(exact, samples) < percent(*other, *all);
        if row.least.as_ref().is_none_or(is_less) {
            row.least = Some((test.to_owned(), exact, samples));
        }
    }

    fn lines(&self) -> Vec<String> {
        let head = format!("{:<9} {:<16} {:>7} {:>9}  least", "language", "version", "exact %", "samples");
        let row = |((language, version), row): (&(String, String), &Row)| {
            let least = row.least.as_ref().map_or(String::new(), |(test, exact, samples)| {
                format!("{:.2} % {test}", percent(*exact, *samples))
            });
            let share = percent(row.exact, row.samples);
            format!("{language:<9} {version:<16} {share:>7.2} {:>9}  {least}", row.samples)
        };
        std::iter::once(head).chain(self.0.iter().map(row)).collect()
    }
}

fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

#[expect(clippy::print_stdout, reason = "this is the task's result")]
fn print(table: &Table) {
    println!();
    for line in table.lines() {
        println!("{line}");
    }
}

#[test]
fn adds_shares_of_each_version() {
    let mut table = Table::default();
    for line in [
        "share\tpython\t3.9\tsorted\t999\t1000",
        "test every_chain ... share\tpython\t3.9\tforks\t90\t100",
        "share\tgo\t1.19\tplain\t5\t5",
        "share\tgo\t1.19\tplain\tmany\t5",
        "test every_chain ... ok",
    ] {
        table.add(line);
    }
    let lines = table.lines();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1], "go        1.19              100.00         5  100.00 % plain");
    assert_eq!(lines[2], "python    3.9                99.00      1100  90.00 % forks");
}
