//! Stacks of PHP programs compared with PHP's own: every function of a script, with the line of
//! each call, from `_start` to the leaf.
//!
//! ```sh
//! cargo xtask fixtures php
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test php -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.php` builds a chain of calls, prints PHP's backtrace of it, and spins at its
//! end. A sample is exact if its script frames are that backtrace, with file and line of each; if
//! native frames of the C function that calls back stand behind each internal function that calls a
//! function of a script, and behind no other; if it begins at the root and no native frame of the
//! loop is left. The innermost function may be on the lines with the comment "spin", and on two
//! lines with the same code equally often. In code of the JIT it may be without a line.
//!
//! `TRUTH_PHP=8.2,static` leaves only the interpreters with one of these in their names,
//! `TRUTH_CHAIN=regex,eval` only such chains.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod comparison;
mod embedded;
mod fastcgi;
mod interpreter;
mod programs;
mod served;
mod server;
mod shares;
mod short;

use std::time::Duration;

use comparison::compare_all;
use interpreter::Interpreter;
use live_suite::reference::chain::{Call, Running};
use live_suite::sampled::{Stack, profile, stacks};
use live_suite::selection::{is_matrix, is_wanted};
use server::Kind;

/// Minimum number of exact samples, of 1,000.
const PER_MILLE: u64 = 990;

/// A chain, its argument, and the first version that has it.
struct Case {
    name: &'static str,
    chain: &'static str,
    argument: &'static str,
    since: (u32, u32),
}

const fn case(name: &'static str) -> Case {
    Case { name, chain: name, argument: "0", since: (7, 4) }
}

const CASES: &[Case] = &[
    Case { name: "recursion_20", chain: "recursion", argument: "20", since: (7, 4) },
    Case { name: "recursion_300", chain: "recursion", argument: "300", since: (7, 4) },
    case("methods"),
    case("constructor"),
    case("destructor"),
    case("closures"),
    case("usort"),
    case("array_map"),
    case("array_reduce"),
    case("array_walk"),
    case("regex"),
    case("autoload"),
    case("error_handler"),
    case("output"),
    case("generators"),
    case("next"),
    case("delegates"),
    case("exceptions"),
    case("finally"),
    case("include"),
    case("eval"),
    case("reused"),
    case("invoked"),
    case("static_closure"),
    case("names"),
    Case { name: "fiber", chain: "fiber", argument: "0", since: (8, 1) },
    case("internals"),
    case("patterns"),
    case("two_lines"),
];

/// The PHP of this machine.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_of_installed_php() {
    test_needs::root!();
    test_needs::programs!("php");
    check(&Interpreter::installed(&[]));
}

/// The same with the JIT, which compiles every function.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_with_function_jit() {
    test_needs::root!();
    test_needs::programs!("php");
    check(&Interpreter::installed(FUNCTION_JIT));
}

/// The same with the JIT, which compiles what runs often.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_with_tracing_jit() {
    test_needs::root!();
    test_needs::programs!("php");
    check(&Interpreter::installed(TRACING_JIT));
}

/// A static program without symbols.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_of_static_php() {
    test_needs::root!();
    check_fetched("8.4-static", "resources/php", &[]);
}

/// Servers, whose workers compile what runs often.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_in_workers_of_fpm() {
    test_needs::root!();
    served::check(Kind::Fpm, "8.2", served::TRACING_JIT);
}

/// A program in C that runs scripts.
#[test]
#[ignore = "profiles: needs root"]
fn every_chain_in_embedding_program() {
    test_needs::root!();
    test_needs::programs!("gcc");
    embedded::check("8.2");
}

/// Workers that live for some requests, from the start of the server on.
#[test]
#[ignore = "profiles: needs root"]
fn short_requests_of_fpm() {
    test_needs::root!();
    short::check("8.2", served::NO_CACHE);
    short::check("8.2", served::TRACING_JIT);
}

/// A program of others.
#[test]
#[ignore = "profiles: needs root"]
fn php_parser_from_its_start() {
    test_needs::root!();
    test_needs::programs!("php");
    let failed = programs::failures(&Interpreter::installed(&[]), "PHP-Parser");
    assert!(failed.is_empty(), "{failed:?}");
}

/// Other versions and kinds.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root"]
    fn programs_from_their_start() {
        test_needs::root!();
        test_needs::programs!("php");
        // In a root without the settings of its packages.
        let [tokens, cache] = ["-dextension=tokenizer", "-dzend_extension=opcache"];
        let with = |options: &[&'static str], more: &[&'static str]| [options, more].concat();
        let fetched = [
            ("7.4", "/usr/bin/php7.4", vec![tokens, "-dextension=json"]),
            ("8.2", "/usr/bin/php8.2", vec![tokens]),
            ("8.4", "/usr/bin/php8.4", vec![tokens]),
            ("8.4", "/usr/bin/php8.4", with(&[tokens, cache], FUNCTION_JIT)),
            ("8.4", "/usr/bin/php8.4", with(&[tokens, cache], TRACING_JIT)),
            ("8.4-static", "resources/php", vec![]),
        ];
        let fetched = fetched
            .into_iter()
            .filter_map(|(name, program, options)| Interpreter::fetched(name, program, &options));
        let installed = [&[][..], OPCACHE, FUNCTION_JIT, TRACING_JIT].map(Interpreter::installed);
        let all = fetched.chain(installed);
        let failed: Vec<_> = all.flat_map(|php| programs::failures(&php, "")).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_php_7_4() {
        test_needs::root!();
        check_fetched("7.4", "/usr/bin/php7.4", &[]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_php_8_4() {
        test_needs::root!();
        check_fetched("8.4", "/usr/bin/php8.4", &[]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_in_servers_of_other_versions() {
        test_needs::root!();
        for version in ["7.4", "8.4"] {
            served::check(Kind::Fpm, version, served::NO_CACHE);
            served::check(Kind::Fpm, version, served::OPCACHE);
            served::check(Kind::Apache, version, served::NO_CACHE);
            short::check(version, served::NO_CACHE);
            short::check(version, served::OPCACHE);
        }
        for settings in [served::NO_CACHE, served::OPCACHE, served::FUNCTION_JIT] {
            served::check(Kind::Fpm, "8.2", settings);
        }
        for settings in [served::TRACING_JIT, served::FUNCTION_JIT] {
            served::check(Kind::Apache, "8.2", settings);
            served::check(Kind::Fpm, "8.4", settings);
            short::check("8.4", settings);
        }
        embedded::check("8.4");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_php_with_threads() {
        test_needs::root!();
        let cache = Interpreter::built("8.2-threads", "opcache.so");
        check_fetched("8.2-threads", "php", &[]);
        let Some(cache) = cache else { return };
        let extension: &'static str = format!("-dzend_extension={}", cache.display()).leak();
        check_fetched("8.2-threads", "php", &[&[extension], TRACING_JIT].concat());
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_in_threads_of_a_process() {
        test_needs::root!();
        test_needs::programs!("gcc");
        embedded::check_threads("8.2-threads");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_with_opcache() {
        test_needs::root!();
        test_needs::programs!("php");
        check(&Interpreter::installed(OPCACHE));
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_php_8_4_with_jit() {
        test_needs::root!();
        for options in [FUNCTION_JIT, TRACING_JIT] {
            check_fetched("8.4", "/usr/bin/php8.4", &[&["-dzend_extension=opcache"], options].concat());
        }
    }

    /// The same functions, by a profiler within PHP.
    #[test]
    #[ignore = "profiles: needs root"]
    fn shares_are_those_of_excimer() {
        test_needs::root!();
        shares::check("8.2");
    }

    /// A module of a server in C.
    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_in_workers_of_apache() {
        test_needs::root!();
        served::check(Kind::Apache, "8.2", served::OPCACHE);
    }
}

/// Compiled scripts are kept in shared memory, optimized.
const OPCACHE: &[&str] = &["-dopcache.enable_cli=1", "-dopcache.jit=off"];

/// The JIT compiles every function when the script is loaded, or paths that run often.
const FUNCTION_JIT: &[&str] =
    &["-dopcache.enable_cli=1", "-dopcache.jit_buffer_size=64M", "-dopcache.jit=function"];
const TRACING_JIT: &[&str] =
    &["-dopcache.enable_cli=1", "-dopcache.jit_buffer_size=64M", "-dopcache.jit=tracing"];

fn check_fetched(name: &str, program: &str, options: &[&'static str]) {
    match Interpreter::fetched(name, program, options) {
        Some(interpreter) => check(&interpreter),
        None => test_needs::skip(&format!("no PHP {name}: cargo xtask fixtures php")),
    }
}

/// A running chain.
struct Subject {
    case: &'static Case,
    pid: u32,
    /// Name of the thread, if others of the process run other chains.
    thread: Option<String>,
    chain: Vec<Call>,
}

/// Returns the chains that a version has.
fn cases(version: (u32, u32)) -> Vec<&'static Case> {
    CASES.iter().filter(|case| case.since <= version && is_wanted(case.name)).collect()
}

/// Runs all chains at the same time under one interpreter, and fails if one of them isn't good.
fn check(interpreter: &Interpreter) {
    let start = |case: &&Case| {
        let running = Running::start(interpreter.command("chains.php", &[case.chain, case.argument]));
        running.signal("STOP");
        running
    };
    let cases = cases(interpreter.version());
    let running: Vec<_> = cases.iter().map(start).collect();
    running.iter().for_each(|running| running.signal("CONT"));
    let subject = |(case, running): (&&'static Case, &Running)| Subject {
        case,
        pid: running.pid(),
        thread: None,
        chain: running.chain.clone(),
    };
    let subjects: Vec<_> = cases.iter().zip(&running).map(subject).collect();
    check_subjects(&interpreter.name, interpreter.has_jit(), &subjects);
}

/// Profiles running chains, and fails if one of them isn't good.
fn check_subjects(name: &str, has_jit: bool, subjects: &[Subject]) {
    assert!(!subjects.is_empty(), "{name}: no chains");
    let mut pids: Vec<u32> = subjects.iter().map(|subject| subject.pid).collect();
    pids.dedup();
    let stacks = stacks(&profile(pids, duration()));
    let mut failures = String::new();
    for Subject { case, pid, thread, chain } in subjects {
        let is_own = |stack: &&Stack| stack.is_of(*pid, thread.as_deref());
        let comparison = compare_all(stacks.iter().filter(is_own), chain, has_jit);
        println!("share\tphp\t{name}\t{}\t{}\t{}", case.name, comparison.exact, comparison.samples);
        if case.name == "two_lines" && !has_jit && !comparison.has_equal_lines() {
            failures += &format!("\n{} under {name}: lines {:?}", case.name, comparison.lines);
        }
        if !comparison.is_good(PER_MILLE) {
            failures += &format!("\n{} under {name}: {comparison}", case.name);
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Returns the profiling time of all chains together.
fn duration() -> Duration {
    Duration::from_secs(if is_matrix() { 8 } else { 4 })
}
