//! Processes that change while they are profiled: no stack shows code that has been replaced.

use std::path::{Path, PathBuf};
use std::process::Command;

use live_suite::compile;
use live_suite::selection::is_matrix;

use crate::colors::Colors;
use crate::interpreter::{self, Interpreter, programs};
use crate::phases::{Fate, Phase};
use crate::profiler::{profile, profile_and_count};
use crate::seen::{Stack, stacks};
use crate::workload::Running;

/// Profiling time of each program, in seconds.
fn seconds() -> u32 {
    if is_matrix() { 8 } else { 5 }
}

/// Loads, uses, unloads and reloads the library of an interpreter, at the same address and
/// elsewhere, and another library at its address.
#[test]
#[ignore = "profiles: needs root, and interpreters with shared libraries"]
fn libraries_that_come_and_go() {
    test_needs::root!();
    test_needs::programs!("gcc");
    test_needs::file!(interpreter::target().join("fixtures/python/list"), "cargo xtask pythons");
    let host = build("host.c");
    each_with_another("libraries", |one, other| {
        let mut running = Running::start(loads(&host, one, other), 0);
        let (profile, health, said) = profile_and_count(&[running.pid()], || running.rest());
        let phases: Vec<_> = said.iter().filter_map(|line| Phase::parse(line)).collect();
        let fate = Fate::of(&stacks(&profile), &phases, 0);
        let stats = health.pipeline.registry.interpreters;
        // The profiler detects a restarted interpreter with the next batch at the latest.
        let is_good = fate.wrong.is_empty()
            && fate.exact * 10 >= fate.scripts * 7
            && fate.whole * 10 >= fate.native * 9
            && stats.unnamed >= u64::from(fate.marked > 0);
        (is_good, format!("{fate}\n    {stats:?}"))
    });
}

/// A script calls C code that runs a second interpreter on the same thread: the frames of both are
/// in call order.
#[test]
#[ignore = "profiles: needs root, and interpreters with shared libraries"]
fn interpreters_that_call_others() {
    test_needs::root!();
    test_needs::programs!("gcc");
    test_needs::file!(interpreter::target().join("fixtures/python/list"), "cargo xtask pythons");
    let host = build("host.c");
    each_with_another("nested", |one, other| {
        let [nests, blue] = ["nests", "blue"].map(script);
        let elsewhere =
            load(other).map(|step| step.split_once('=').map_or(String::new(), |(_, path)| path.into()));
        let within = format!("nest={nests},sub:{blue}");
        let between = format!("nest={nests},{}:{blue}", elsewhere.join(":"));
        // The caller of the third, one of the first two, cannot be determined.
        let three = format!("nest={nests},sub:{nests},sub:{blue}");
        let mut outcomes = Vec::new();
        for (what, nest, above) in [("two", within, 1), ("two libraries", between, 1), ("three", three, 2)] {
            let mut command = Command::new(&host);
            command.arg(seconds().to_string()).args(load(one)).arg(nest);
            let mut running = Running::start(bare(command), 0);
            let (profile, said) = profile(&[running.pid()], || running.rest());
            let phases: Vec<_> = said.iter().filter_map(|line| Phase::parse(line)).collect();
            let fate = Fate::of(&stacks(&profile), &phases, above);
            let right = if above > 1 { fate.marked } else { fate.exact };
            let is_good = fate.wrong.is_empty() && right * 10 >= (fate.scripts - fate.early) * 9;
            outcomes.push((is_good && right > fate.early, format!("{what}: {fate}")));
        }
        let texts: Vec<_> = outcomes.iter().map(|(_, text)| text.as_str()).collect();
        (outcomes.iter().all(|(is_good, _)| *is_good), texts.join("\n  "))
    });
}

/// Profiles a process that alternates between one Python, a native program and another Python.
#[test]
#[ignore = "profiles: needs root, and interpreters with shared libraries"]
fn processes_that_become_others() {
    test_needs::root!();
    test_needs::programs!("gcc");
    test_needs::file!(interpreter::target().join("fixtures/python/list"), "cargo xtask pythons");
    let host = build("host.c");
    each_with_another("executing", |one, other| {
        let programs = [
            format!("{} {} red", one.program, script("becomes")),
            format!("{} {} native next", host.display(), seconds()),
            format!("{} {} blue", other.program, script("becomes")),
        ];
        let mut command = Command::new(&host);
        command.args([&seconds().to_string(), "next"]).env("NEXT", programs.join("\n"));
        compare(&profiled(bare(command)), one, other)
    });
}

/// Profiles processes that are killed while they work.
#[test]
#[ignore = "profiles: needs root, and interpreters with shared libraries"]
fn processes_that_are_killed() {
    test_needs::root!();
    test_needs::programs!("gcc");
    test_needs::file!(interpreter::target().join("fixtures/python/list"), "cargo xtask pythons");
    let host = build("host.c");
    each_with_another("killed", |one, other| {
        let child =
            |python: &Interpreter, color| format!("child={} {} {color}", python.program, script("becomes"));
        let mut command = Command::new(&host);
        command.args([seconds().to_string(), child(one, "red"), child(other, "blue")]);
        compare(&profiled(bare(command)), one, other)
    });
}

fn compare(stacks: &[Stack], one: &Interpreter, other: &Interpreter) -> (bool, String) {
    let file = |python| library(python).unwrap_or_default().file_name().unwrap_or_default().to_owned();
    let file = |python| file(python).to_string_lossy().into_owned();
    let colors = Colors::of(stacks, &[(file(one), "red"), (file(other), "blue")]);
    let is_good = colors.wrong.is_empty()
        && colors.right >= colors.marked + colors.bare
        && colors.cut * 50 <= colors.samples();
    (is_good, colors.to_string())
}

/// Runs `attempt` for each interpreter with a shared library, together with the next one.
fn each_with_another(what: &str, attempt: impl Fn(&Interpreter, &Interpreter) -> (bool, String)) {
    let interpreters = interpreter::chosen(|each| library(each).is_some());
    if interpreters.len() < 2 {
        return test_needs::skip("two interpreters with shared libraries are needed");
    }
    // The newest with the oldest only: half the time of both orders.
    let first = if is_matrix() { 0 } else { interpreters.len() - 1 };
    let mut failures = String::new();
    for (index, one) in interpreters.iter().enumerate().skip(first) {
        let (is_good, outcome) = attempt(one, &interpreters[(index + 1) % interpreters.len()]);
        println!("{what}, {}: {outcome}", one.name);
        if !is_good {
            failures += &format!("\n{what}, {}: {outcome}", one.name);
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn loads(host: &Path, one: &Interpreter, other: &Interpreter) -> Command {
    let [red, blue] = ["red", "blue"].map(|name| format!("run={}", script(name)));
    let mut command = Command::new(host);
    let end = ["unload".to_owned(), "native".to_owned()];
    command.arg(seconds().to_string());
    command.args(load(one)).args([&red]).args(&end);
    command.args(load(one)).args([&blue, "unload", "squat"]);
    command.args(load(one)).args([&red, &blue, "key", &red, "unload", "block"]);
    command.args(load(one)).args([&blue, "unload", "key"]);
    command.args(load(one)).args([&red]).args(&end);
    command.args(load(other)).args([&red]).args(&end);
    bare(command)
}

/// Returns the steps that load the library of an interpreter.
fn load(interpreter: &Interpreter) -> [String; 2] {
    let library = library(interpreter).unwrap_or_default();
    let home = library.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    [format!("load={}", library.display()), format!("home={}", home.display())]
}

fn script(name: &str) -> String {
    programs().join(name).with_extension("py").display().to_string()
}

/// Returns the shared library of an interpreter that shares the machine's root.
fn library(interpreter: &Interpreter) -> Option<PathBuf> {
    let version = interpreter.version();
    let folder = Path::new(&interpreter.program).parent()?.parent()?.join("lib");
    let start = format!("libpython{}.{}", version.major, version.minor);
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&start) && name.ends_with(".so.1.0")
    };
    let entries = std::fs::read_dir(folder).ok().filter(|_| interpreter.root.is_none())?;
    entries.flatten().map(|entry| entry.path()).find(is_it)
}

/// Returns the stacks of a program and of its child processes, until it ends.
fn profiled(command: Command) -> Vec<Stack> {
    let mut running = Running::start(command, 0);
    let (profile, _) = profile(&[running.pid()], || running.rest());
    stacks(&profile)
}

fn bare(mut command: Command) -> Command {
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH").env_remove("PYTHONHOME");
    command
}

/// Builds one of the programs, as a distribution does.
fn build(source: &str) -> PathBuf {
    let flags = ["-O2", "-fomit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-pthread"];
    compile::program("python", &format!("python/programs/{source}"), &flags)
}
