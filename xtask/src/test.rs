//! `cargo xtask test`: the tests that every machine can run, in at most ten minutes.

use std::process::Command;
use std::time::Duration;

use test_needs::{TOOLS, Tool};

use crate::again::{SECOND_RUN, twice};
use crate::binaries::{self, Binary, skips};
use crate::run::{Outcome, cargo, run, watch};
use crate::tally::{Tally, is_skipped};
use crate::{debian, layers, words};

/// Installs programs that tests need, where that is possible, and runs all steps.
pub(crate) fn task(arguments: &[String]) -> Outcome {
    let profiles = match arguments {
        [] => ("dev", "release"),
        [option, profile] if option == "--profile" => (profile.as_str(), profile.as_str()),
        _ => return Err("takes nothing or --profile NAME".to_owned()),
    };
    let mut tally = Tally::default();
    tally.step("programs", |_| {
        prepare();
        Ok(())
    });
    checks(&mut tally);
    let built = build_tests(&mut tally, profiles.0);
    tests(&mut tally, &built, profiles.0);
    if !can_profile(&mut tally) {
        return tally.close();
    }
    let is_quick = |binary: &Binary| binary.package == LIVE && QUICK.contains(&binary.name.as_str());
    let quick: Vec<Binary> = if profiles.0 == profiles.1 {
        built.into_iter().filter(is_quick).collect()
    } else {
        let named = QUICK.iter().flat_map(|name| ["--test", name]);
        let line: Vec<&str> =
            ["--profile", profiles.1].iter().chain(LIVE_SUITE).copied().chain(named).collect();
        build(&mut tally, "build of live tests", &line).into_iter().filter(is_quick).collect()
    };
    live(&mut tally, &quick);
    tally.close()
}

/// The checks that run no test.
pub(crate) fn checks(tally: &mut Tally) {
    tally.step("format", |_| run(&mut cargo(&["fmt", "--all", "--check"])));
    tally.step("lints", |_| {
        run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    tally.step("layers", |_| layers::task(&[]));
    tally.step("words", |_| words::task(&[]));
    tally.step("documentation", |_| {
        run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
    });
}

/// Builds all tests, and returns their programs.
pub(crate) fn build_tests(tally: &mut Tally, profile: &str) -> Vec<Binary> {
    build(tally, "build of tests", &[&["--workspace", "--profile", profile], WITH_TESTS].concat())
}

/// The tests that need no privilege.
pub(crate) fn tests(tally: &mut Tally, binaries: &[Binary], profile: &str) {
    tally.step("tests", |summaries| binaries::run_all(binaries, |line| summaries.extend(summary(line))));
    tally.step("tests of documentation", |summaries| {
        watched(cargo(&["test", "--workspace", "--doc", "--profile", profile]), summaries)
    });
}

/// All targets that have tests. The programs of examples and their like have none; each would be
/// compiled once more.
const WITH_TESTS: &[&str] = &["--lib", "--test", "*", "--bin", "xtask"];

/// Limit of a build: it takes three minutes where nothing else runs.
const BUILD: Duration = Duration::from_secs(30 * 60);

fn build(tally: &mut Tally, name: &str, arguments: &[&str]) -> Vec<Binary> {
    let mut built = Vec::new();
    tally.limited_step(name, BUILD, |_| {
        built = binaries::build(arguments)?;
        Ok(())
    });
    built
}

/// Returns `true` if live tests can run; otherwise they are counted as skipped.
pub(crate) fn can_profile(tally: &mut Tally) -> bool {
    if !test_needs::is_root() {
        let why = "they profile, which needs root: sudo -E env PATH=\"$PATH\" cargo xtask test";
        tally.skip("live tests", why);
    }
    test_needs::is_root()
}

/// The tests that are marked as ignored, a step for each program. Of those that profile this
/// machine one runs at a time, as two would disturb each other.
pub(crate) fn live(tally: &mut Tally, binaries: &[Binary]) {
    for binary in binaries {
        match binary.has_ignored(ELSEWHERE) {
            Ok(false) => {}
            Ok(true) => {
                let name = format!("live tests: {} {}", binary.package, binary.name);
                let how = if profiles(binary) { ONE_BY_ONE } else { &["--ignored"] };
                let run = |selected: &[&str], see: &mut dyn FnMut(&str)| {
                    watch(&mut binary.command(&[how, selected].concat()), see)
                };
                tally.step(&name, |summaries| {
                    twice(&skips(ELSEWHERE), run, &mut |line| summaries.extend(summary(line)))
                });
            }
            Err(reason) => tally.step(&format!("live tests: {}", binary.name), |_| Err(reason)),
        }
    }
}

/// Live tests that take minutes in all.
const QUICK: &[&str] = &["account", "replay", "stripped", "truth"];

/// Arguments of `cargo test` that select the live suite, and build the example programs that some of
/// its tests run: cargo builds programs for the tests of their own package.
pub(crate) const LIVE_SUITE: &[&str] =
    &["--package", "live-suite", "--package", "examples", "--test", "command_line"];

/// Folder of the live suite's package.
const LIVE: &str = "live";

/// Returns `true` unless the tests only read files and memory of other programs.
fn profiles(binary: &Binary) -> bool {
    match binary.package.as_str() {
        LIVE => binary.name != "core_files",
        package => package == "examples",
    }
}

const ONE_BY_ONE: &[&str] = &["--ignored", "--test-threads=1", "--nocapture"];

/// Versions between the oldest and the newest are for `cargo xtask matrix`, tests that need
/// optimizations for a step of `cargo xtask ci`, and those of a machine of their own for `cargo
/// xtask kernels`.
const ELSEWHERE: &[&str] = &["matrix::", "optimized::", "guest::"];

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
pub(crate) fn packages(tools: &[&Tool]) -> Vec<&'static str> {
    let mut packages: Vec<_> = tools.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Runs tests and keeps the lines with which they close.
pub(crate) fn watched(mut command: Command, summaries: &mut Vec<String>) -> Outcome {
    watch(&mut command, |line| summaries.extend(summary(line)))
}

/// Returns a closing line, unless no test was run, the line of a skipped test, with or without the
/// test's name before it, or that of a second run.
pub(crate) fn summary(line: &str) -> Option<String> {
    if is_skipped(line) || line.starts_with(SECOND_RUN) {
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
