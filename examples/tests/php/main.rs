//! Stacks of PHP programs compared with PHP's own: every function of a script, with the line of each call, from `_start`
//! to the leaf.
//!
//! ```sh
//! cargo xtask fixtures php
//! sudo -E env PATH="$PATH" cargo test --release -p examples --test php -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.php` builds a chain of calls, prints PHP's backtrace of it, and spins at its end. A sample is exact if its
//! script frames are that backtrace, with file and line of each; if native frames of the C function that calls back stand
//! behind each internal function that calls a function of a script, and behind no other; if it begins at the root and no
//! native frame of the loop is left. The innermost function may be on the lines with the comment "spin", and on two lines with
//! the same code equally often. In code of the JIT it may be without a line.
//!
//! `TRUTH_PHP=8.2,static` leaves only the interpreters with one of these in their names, `TRUTH_CHAIN=regex,eval` only such
//! chains.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

#[path = "../scripts/chain.rs"]
mod chain;
mod interpreter;
mod judge;
#[path = "../scripts/profile.rs"]
mod profile;
#[path = "../scripts/seen.rs"]
mod seen;
#[path = "../scripts/verdict.rs"]
mod verdict;

use std::time::Duration;

use chain::Running;
use interpreter::Interpreter;
use judge::judge;
use profile::profile;

/// Profiling time of all chains together.
const DURATION: Duration = Duration::from_secs(8);

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
    case("names"),
    Case { name: "fiber", chain: "fiber", argument: "0", since: (8, 1) },
    case("internals"),
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

/// Other versions and kinds.
mod matrix {
    use super::*;

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

/// Runs all chains at the same time under one interpreter, and fails if one of them isn't good.
fn check(interpreter: &Interpreter) {
    let wanted = std::env::var("TRUTH_CHAIN").unwrap_or_default();
    let version = interpreter.version();
    let is_wanted =
        |case: &&Case| case.since <= version && wanted.split(',').any(|part| case.name.contains(part));
    let cases: Vec<_> = CASES.iter().filter(is_wanted).collect();
    let running: Vec<_> = cases
        .iter()
        .map(|case| {
            let running = Running::start(interpreter.command("chains.php", &[case.chain, case.argument]));
            running.signal("STOP");
            running
        })
        .collect();
    running.iter().for_each(|running| running.signal("CONT"));
    let stacks = seen::stacks(&profile(running.iter().map(Running::pid), DURATION));
    let mut failures = String::new();
    for (case, running) in cases.iter().zip(&running) {
        let own = stacks.iter().filter(|stack| stack.pid == running.pid());
        let verdict = judge(own, &running.chain, interpreter.has_jit());
        println!("share\tphp\t{}\t{}\t{}\t{}", interpreter.name, case.name, verdict.exact, verdict.samples);
        if case.name == "two_lines" && !interpreter.has_jit() && !verdict.has_equal_lines() {
            failures += &format!("\n{} under {}: lines {:?}", case.name, interpreter.name, verdict.lines);
        }
        if !verdict.is_good(PER_MILLE) {
            failures += &format!("\n{} under {}: {verdict}", case.name, interpreter.name);
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
