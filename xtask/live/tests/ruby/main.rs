//! Stacks of Ruby programs compared with Ruby's own backtraces and with written chains, from the
//! root to the leaf.
//!
//! ```sh
//! cargo xtask fixtures ruby
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test ruby -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.rb` runs a chain of calls that ends in a method that spins, and prints its
//! backtrace before. All chains of a version run and are profiled at once;
//! `TRUTH_CHAIN=ractor,lazy` leaves only those with one of these in their names. A sample is exact
//! if
//!
//! * its stack is whole, from `_start` or the beginning of a thread or fiber to the leaf,
//! * its Ruby frames have the names of `programs/chains.txt` or `kinds.txt`, in order, no other
//!   ones between,
//! * their lines and files are those of the backtrace, and the leaf is on a line of the loop,
//! * its native frames between Ruby frames are those of most samples.
//!
//! Samples before the first Ruby frame of a process are counted apart: it runs already when the
//! profiler starts, whose runtime is attached to its process within 0.1 s.
//!
//! `programs/moves.rb` calls and returns all the time: its stacks have to be beginnings of its
//! chains. `programs/collects.rb` collects garbage, as often as Ruby itself says.
//!
//! With YJIT all of this is so twice: each method is compiled when it is first called, or after the
//! default number of calls. With MJIT each method of some chains is compiled by a C compiler when
//! it is called for the second time, before it runs on.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod collections;
mod comparison;
mod moves;
mod program;
mod programs;
mod seen;
mod shares;

use std::time::Duration;

use ebpf_profiler_core::profile::Profile;

use comparison::{Comparison, Expected};
use program::{Ruby, Running};

use live_suite::sampled::profiler;
use live_suite::selection::is_wanted;

/// Sampling frequency per CPU, in Hz.
const FREQUENCY: u32 = 997;

/// Profiling time of all chains of a version.
const TIME: Duration = Duration::from_secs(8);

/// Minimum number of exact samples, of 1,000.
const PER_MILLE: u64 = 990;

#[test]
#[ignore = "profiles: needs root"]
fn ruby_2_7() {
    test_needs::root!();
    check("debian-2.7");
}

/// Versions between the oldest and the newest, programs of others, and comparisons with rbspy.
mod matrix {
    #[test]
    #[ignore = "profiles: needs root"]
    fn programs_from_their_start() {
        test_needs::root!();
        let all: [(&str, &'static [&'static str]); 11] = [
            ("debian-2.7", &[]),
            ("debian-3.1", &[]),
            ("debian-3.1", &["--yjit"]),
            ("wheel-3.2.2", &[]),
            ("wheel-3.2.3", &[]),
            ("wheel-3.3.5", &[]),
            ("debian-3.3", &[]),
            ("wheel-3.3.9", &[]),
            ("yjit-3.3.8", &[]),
            ("yjit-3.3.8", &["--yjit"]),
            ("wheel-3.4.7", &[]),
        ];
        let failed: Vec<_> = all
            .iter()
            .flat_map(|(version, options)| super::programs::failures(version, options, ""))
            .collect();
        assert!(failed.is_empty(), "{failed:?}");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn shares_are_those_of_rbspy() {
        test_needs::root!();
        // rbspy finds no stripped build of 3.3 and later, and needs a later libc than that of 2.7.
        for version in ["debian-3.1", "wheel-3.2.2", "wheel-3.2.3"] {
            let Some(ruby) = super::Ruby::find(version) else {
                return test_needs::skip(&format!("no Ruby {version}: cargo xtask fixtures ruby"));
            };
            let compared = super::shares::check(&ruby);
            assert!(!matches!(compared, Some(Err(_))), "{version}: {compared:?}");
        }
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn ruby_3_1() {
        test_needs::root!();
        super::check("debian-3.1");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn yjit_3_1_at_first_call() {
        test_needs::root!();
        super::check_compiled("debian-3.1", super::AT_FIRST_CALL, 0);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn yjit_3_1_of_what_is_called_often() {
        test_needs::root!();
        super::check_compiled("debian-3.1", &["--yjit"], 40);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn yjit_3_3() {
        test_needs::root!();
        super::check_compiled("yjit-3.3.8", super::AT_FIRST_CALL, 0);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn yjit_3_3_of_what_is_called_often() {
        test_needs::root!();
        super::check_compiled("yjit-3.3.8", &["--yjit"], 40);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn mjit_2_7() {
        test_needs::root!();
        super::check_some("mjit-2.7", &["--jit", "--jit-wait", "--jit-min-calls=2"], 4, super::SOME);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn mjit_3_1() {
        test_needs::root!();
        super::check_some("mjit-3.1", &["--mjit", "--mjit-wait", "--mjit-min-calls=2"], 4, super::SOME);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn ruby_3_2() {
        test_needs::root!();
        super::check("wheel-3.2.2");
        super::check("wheel-3.2.3");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn ruby_3_3() {
        test_needs::root!();
        super::check("wheel-3.3.5");
        super::check("debian-3.3");
        super::check("wheel-3.3.9");
    }

    /// A program of others.
    #[test]
    #[ignore = "profiles: needs root"]
    fn asciidoctor_from_its_start() {
        test_needs::root!();
        let failed = super::programs::failures("wheel-3.4.7", &[], "Asciidoctor");
        assert!(failed.is_empty(), "{failed:?}");
    }
}

#[test]
#[ignore = "profiles: needs root"]
fn ruby_3_4() {
    test_needs::root!();
    check("wheel-3.4.7");
}

#[test]
#[ignore = "profiles: needs root"]
fn yjit_3_1() {
    test_needs::root!();
    check_some("debian-3.1", AT_FIRST_CALL, 0, SOME);
}

fn check(version: &str) {
    check_compiled(version, &[], 0);
}

/// Options by which YJIT compiles what is called.
const AT_FIRST_CALL: &[&str] = &["--yjit", "--yjit-call-threshold=1"];

/// Chains with a compiler that takes 0.1 s for a method, or makes the start of a program slow.
const SOME: &[&str] = &[
    "recursion",
    "blocks",
    "iterators",
    "enumerables",
    "methods",
    "inherited",
    "defined",
    "missing",
    "initialized",
    "procs",
    "rescued",
    "ensured",
    "evaluated",
    "fiber",
    "thread",
    "moves",
];

/// Checks a version with options that turn a compiler on; chains are called some times before they
/// spin.
fn check_compiled(version: &str, options: &'static [&'static str], rounds: u32) {
    check_some(version, options, rounds, &[]);
}

/// Does this for some of the chains; for all of them if the list is empty.
fn check_some(version: &str, options: &'static [&'static str], rounds: u32, some: &[&str]) {
    let Some(ruby) = Ruby::find(version) else {
        return test_needs::skip(&format!("no Ruby {version}: cargo xtask fixtures ruby"));
    };
    let ruby = ruby.with_compiler(options, rounds);
    let mut wrong = Vec::new();
    let mut report = |name: &str, comparison: &Comparison, allowed: u64| {
        println!("share\truby\t{version}\t{name}\t{}\t{}", comparison.exact, comparison.samples);
        if comparison.exact < comparison.samples {
            println!("{version} {name}: {comparison}");
        }
        let exact = comparison.exact + allowed;
        if comparison.exact == 0 || exact * 1000 < comparison.samples * PER_MILLE {
            wrong.push(name.to_owned());
        }
    };
    let number = version.split_once('-').map_or(version, |(_, number)| number);
    let mut chains = Expected::all(number);
    let is_selected = |name: &str| is_wanted(name) && (some.is_empty() || some.contains(&name));
    chains.retain(|chain| is_selected(&chain.name));
    let running: Vec<_> = chains.iter().map(|chain| ruby.chain(&chain.name)).collect();
    let profile = profile(&running, || std::thread::sleep(TIME));
    let stacks = seen::stacks(&profile);
    if version.starts_with("mjit") {
        let compiled = stacks.iter().filter(|stack| stack.has_code_of_mjit());
        let (samples, all) = (compiled.map(|stack| stack.count).sum::<u64>(), profile.count());
        println!("{version}: {samples} of {all} samples with code of MJIT");
        // A loop that was entered before it was compiled is interpreted.
        assert!(samples * 2 > all, "{version}: {samples} of {all} samples with code of MJIT");
    }
    for (chain, running) in chains.iter().zip(&running) {
        report(&chain.name, &chain.compare_all(running, &stacks), 0);
    }
    drop(running);
    if is_wanted("moves") {
        report("moves", &moves::check(&ruby), 0);
        // Few, and the last one of a process may be named after its end.
        report("first samples", &moves::first_samples(&ruby), 1);
    }
    let mut shares = None;
    if is_wanted("collections") {
        match collections::check(&ruby) {
            Ok(comparison) => report("collections", &comparison, 0),
            Err(difference) => shares = Some(difference),
        }
    }
    assert_eq!(shares, None, "{version}");
    assert!(wrong.is_empty(), "{version}: {wrong:?}");
}

/// Profiles processes while `meanwhile` runs.
fn profile(running: &[Running], meanwhile: impl FnOnce()) -> Profile {
    let profiler = profiler(running.iter().map(Running::pid), FREQUENCY);
    running.iter().for_each(Running::resume);
    meanwhile();
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    profile
}
