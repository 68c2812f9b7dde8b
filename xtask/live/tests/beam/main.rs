//! Stacks of programs in Erlang and Elixir compared with those of `process_info`: every function
//! with the line of each call, from the thread's start to the leaf.
//!
//! ```sh
//! cargo xtask fixtures beam
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test beam -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.erl` has a process for each chain. It prints what the virtual machine says of
//! its stack and spins at its end: in compiled code, in functions in C, collecting garbage, sending
//! messages. A sample of a process is exact if its functions are those of one chain, with file and
//! line of each, the right number of recursive ones, and if it begins at the start of the thread.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and prints")]

mod comparison;
mod node;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use live_suite::comparison::Comparison;
use live_suite::reference::chains::Running;
use live_suite::sampled::{profile, stacks};
use node::Release;

/// Profiling time of all chains together.
const DURATION: Duration = Duration::from_secs(6);

/// Minimum number of exact samples, of 1,000.
const PER_MILLE: u64 = 990;

/// Oldest and newest release.
const ENDS: [&str; 2] = ["25", "29"];

/// Two schedulers, and one dirty one of each kind.
const SCHEDULERS: &[&str] = &["+S", "2:2", "+SDcpu", "1:1", "+SDio", "1"];

#[test]
#[ignore = "profiles: needs root"]
fn every_chain_of_erlang() {
    test_needs::root!();
    for name in ENDS {
        let Some(release) = fetched(name) else { return };
        check(name, "Erlang", release.erlang(SCHEDULERS, "chains", "main"));
    }
}

#[test]
#[ignore = "profiles: needs root"]
fn every_chain_of_elixir() {
    test_needs::root!();
    for name in ENDS {
        let Some(release) = fetched(name) else { return };
        check(name, "Elixir", release.elixir("chains.exs"));
    }
}

#[test]
#[ignore = "profiles: needs root"]
fn every_chain_with_frame_pointers() {
    test_needs::root!();
    let Some(release) = fetched("29") else { return };
    let options = [SCHEDULERS, &["+JPperf", "true"]].concat();
    check("29", "Erlang with frame pointers", release.erlang(&options, "chains", "main"));
}

/// Other releases.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_of_erlang() {
        test_needs::root!();
        let Some(release) = fetched("27") else { return };
        check("27", "Erlang", release.erlang(SCHEDULERS, "chains", "main"));
        check("27", "Elixir", release.elixir("chains.exs"));
    }
}

fn fetched(name: &str) -> Option<Release> {
    let release = Release::fetched(name);
    if release.is_none() {
        test_needs::skip(&format!("no Erlang {name}: cargo xtask fixtures beam"));
    }
    release
}

/// Profiles a program, and fails if it has a chain without samples, or too many samples that are no
/// chain.
fn check(release: &str, program: &str, command: Command) {
    let running = Running::start(command);
    let profile = profile([running.pid()], DURATION);
    let stacks = stacks(&profile);
    let own = stacks.iter().filter(|stack| !comparison::functions(stack).is_empty());
    let found: RefCell<BTreeMap<&str, u64>> = RefCell::default();
    let comparison = Comparison::on(own, |stack| {
        let (case, line) = comparison::case(stack, &running.chains)?;
        *found.borrow_mut().entry(case).or_default() += stack.count;
        Ok(line)
    });
    println!("share\tbeam\t{release}\t{program}\t{}\t{}", comparison.exact, comparison.samples);
    println!("{release}, {program}: {comparison}\n{:?}", found.borrow());
    let found = found.into_inner();
    let missing: Vec<_> = running.chains.keys().filter(|case| !found.contains_key(case.as_str())).collect();
    assert!(missing.is_empty(), "no samples of {missing:?} under {release}");
    assert!(comparison.is_good(PER_MILLE), "{program} under {release}: {comparison}");
}
