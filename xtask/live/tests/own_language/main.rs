//! The toy languages: conformance, and the stacks of live processes against the scripts that they
//! run, by names and lines.
//!
//! ```sh
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test own_language -- --ignored --test-threads=1 --nocapture
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod comparison;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use comparison::Outcome;
use ebpf_profiler_core::language::Language;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::{Profiler, testing};
use examples::toy::{Toy, ToyArray, ToyCompiled};

use live_suite::compile;
use live_suite::process::Process;

/// Stacks of the interpreted script: calls at lines 9 and 5, work at lines 2 and 6. The first line
/// of a function is its entry.
const INTERPRETED: &[&str] = &[
    "main:8",
    "main:9",
    "main:9;frame:4",
    "main:9;frame:5",
    "main:9;frame:6",
    "main:9;frame:5;draw:1",
    "main:9;frame:5;draw:2",
];

/// Stacks of the compiled script, which calls `draw` from C. The first one is that of the loop in C
/// that calls the script.
const COMPILED: &[&str] = &[
    "",
    "main:8",
    "main:9",
    "main:9;frame:4",
    "main:9;frame:5",
    "main:9;frame:6",
    "main:9;frame:5;toy_each",
    "main:9;frame:5;toy_each;draw:1",
    "main:9;frame:5;toy_each;draw:2",
];

#[test]
fn toy_languages_pass_conformance_test() {
    test_needs::programs!("gcc");
    let languages: [(&dyn Language, &str); 3] =
        [(&Toy, "toy"), (&ToyArray, "array"), (&ToyCompiled, "compiled")];
    for (language, source) in languages {
        let file = std::fs::read(compiled("conformance", source)).unwrap();
        assert_eq!(testing::language(language, &file), Ok(()));
    }
}

#[test]
#[ignore = "profiles: needs root"]
fn frames_of_list_replace_interpreter_loops() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let outcome = Outcome::of(&profile(Toy, "toy", &[]), INTERPRETED);
    assert!(outcome.is_exact(), "{outcome}");
    // `draw` does three quarters of the work.
    assert!((65..85).contains(&outcome.percent("draw:2")), "{outcome}");
}

#[test]
#[ignore = "profiles: needs root"]
fn frames_of_array_replace_interpreter_loops() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let outcome = Outcome::of(&profile(ToyArray, "array", &[]), INTERPRETED);
    assert!(outcome.is_exact(), "{outcome}");
    assert!((65..85).contains(&outcome.percent("draw:2")), "{outcome}");
}

#[test]
#[ignore = "profiles: needs root"]
fn compiled_functions_have_names_and_lines() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let outcome = Outcome::of(&profile(ToyCompiled, "compiled", &[]), COMPILED);
    assert!(outcome.is_exact(), "{outcome}");
    // Twice 300,000 of 800,000 rounds.
    assert!((65..85).contains(&outcome.percent("draw:2")), "{outcome}");
}

/// Compiles other functions over the former ones several times a second.
#[test]
#[ignore = "profiles: needs root"]
fn compiled_functions_never_have_names_of_others() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let outcome = Outcome::of(&profile(ToyCompiled, "compiled", &["300"]), COMPILED);
    assert_eq!(outcome.mixed, 0, "{outcome}");
    assert!(outcome.exact * 2 > outcome.samples, "{outcome}");
    assert_eq!(outcome.generations.len(), 2, "{outcome}");
}

/// Most samples are of calls and returns: of instructions at which a frame is half built.
#[test]
#[ignore = "profiles: needs root"]
fn compiled_functions_are_named_at_each_instruction() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let outcome = Outcome::of(&profile(ToyCompiled, "compiled", &["0", "1"]), COMPILED);
    assert!(outcome.is_exact(), "{outcome}");
}

/// Profiles the runtime of a language for 3 seconds.
fn profile(language: impl Language + 'static, source: &str, arguments: &[&str]) -> Profile {
    let mut running = Process::start(Command::new(compiled("live", source)).args(arguments));
    let profiler = Profiler::builder()
        .deadline(Duration::from_secs(60))
        .frequency(499)
        .pid(running.id())
        .unwind(ebpf_profiler_unwind::tables())
        .languages([Box::new(language) as _])
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    let profile = profiler.run_for(Duration::from_secs(3)).unwrap();
    assert!(running.try_wait().unwrap().is_none(), "{source} has ended");
    profile
}

fn compiled(name: &str, source: &str) -> PathBuf {
    let source = format!("../../../examples/src/toy/{source}.c");
    compile::program(&format!("toy-{name}"), &source, &["-O2", "-rdynamic"])
}
