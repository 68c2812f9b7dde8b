//! Stacks of a program in C# compared with those that the runtime reports, `StackTrace`: every
//! method from the thread's start to the leaf.
//!
//! ```sh
//! cargo xtask fixtures dotnet
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test dotnet -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.cs` has a thread for each chain, and runs as a hook of another program, which
//! has the runtime inside. A sample is exact if its methods are those of one chain, then those that
//! spin at its end, each called by the right one: loops, methods without a frame pointer,
//! allocation, precompiled methods of the library. It begins at the start of the thread.
//!
//! Names in a program of others, with .NET 8, are compared with the map that the runtime writes for perf.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test fails by panicking, and prints")]

mod comparison;
mod map;
mod program;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use live_suite::comparison::Comparison;
use live_suite::reference::chains::Running;
use live_suite::sampled::{profile, stacks};
use program::Release;

/// Profiling time of all chains together.
const DURATION: Duration = Duration::from_secs(6);

/// Minimum number of exact samples, of 1,000.
const PER_MILLE: u64 = 990;

/// Oldest and newest release that runs hooks.
const ENDS: [&str; 2] = ["9.0.1", "10.0.0-single"];

#[test]
#[ignore = "profiles: needs root"]
fn every_chain() {
    test_needs::root!();
    for name in ENDS {
        let Some(release) = fetched(name) else { return };
        check(name, "chains", release.chains());
    }
}

/// A compiler of schemas with .NET 8 inside, which is trimmed and has no precompiled code: its
/// methods are those of the runtime's map, and its stacks begin at the start of their thread.
#[test]
#[ignore = "profiles: needs root"]
fn compiler_of_schemas() {
    test_needs::root!();
    let Some(mut command) = program::schemas() else {
        return test_needs::skip("no .NET 8: cargo xtask fixtures dotnet");
    };
    let mut child = command.env("DOTNET_PerfMapEnabled", "1").spawn().unwrap();
    let profile = profile([child.id()], DURATION);
    let is_running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_running, "the compiler ended before the profile");
    let stacks = stacks(&profile);
    let own = stacks.iter().filter(|stack| comparison::is_own(stack));
    let methods = map::Methods::take(child.id());
    let comparison = Comparison::on(own, |stack| comparison::names(stack, &methods).map(|()| 0));
    println!("share\tdotnet\t8.0.15\tbebopc\t{}\t{}", comparison.exact, comparison.samples);
    println!("8.0.15, bebopc: {comparison}");
    assert!(comparison.samples > 100 && comparison.is_good(PER_MILLE), "{comparison}");
}

/// Other releases and settings of the runtime.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root"]
    fn every_chain_with_other_settings() {
        test_needs::root!();
        for (name, setting) in [
            ("9.0.1", "DOTNET_EnableWriteXorExecute=0"),
            ("10.0.0-single", "DOTNET_EnableWriteXorExecute=0"),
            ("9.0.5", "DOTNET_TieredPGO=0"),
            ("9.0.1", "DOTNET_TieredCompilation=0"),
            ("10.0.0-single", "DOTNET_TieredCompilation=0"),
        ] {
            let Some(release) = fetched(name) else { return };
            let mut command = release.chains();
            let (variable, value) = setting.split_once('=').unwrap();
            command.env(variable, value);
            check(name, setting, command);
        }
    }
}

fn fetched(name: &str) -> Option<Release> {
    let release = Release::fetched(name);
    if release.is_none() {
        test_needs::skip(&format!("no .NET {name}: cargo xtask fixtures dotnet"));
    }
    release
}

/// Profiles a program, and fails if it has a chain without samples, or too many samples that are no
/// chain.
fn check(release: &str, program: &str, command: Command) {
    let running = Running::start(command);
    let profile = profile([running.pid()], DURATION);
    let stacks = stacks(&profile);
    let own = stacks.iter().filter(|stack| comparison::is_own(stack));
    let found: RefCell<BTreeMap<&str, u64>> = RefCell::default();
    let comparison = Comparison::on(own, |stack| {
        let case = comparison::case(stack, &running.chains)?;
        *found.borrow_mut().entry(case).or_default() += stack.count;
        Ok(0)
    });
    println!("share\tdotnet\t{release}\t{program}\t{}\t{}", comparison.exact, comparison.samples);
    println!("{release}, {program}: {comparison}\n{:?}", found.borrow());
    let found = found.into_inner();
    let missing: Vec<_> = running.chains.keys().filter(|case| !found.contains_key(case.as_str())).collect();
    assert!(missing.is_empty(), "no samples of {missing:?} under {release}");
    assert!(comparison.is_good(PER_MILLE), "{program} under {release}: {comparison}");
}
