//! Stacks of stripped Go programs compared with the Go runtime's own.
//!
//! ```sh
//! cargo xtask fixtures go
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test go -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/goroutines.go` prints each goroutine's stack by `runtime.Callers` before it spins at
//! the end of it. The test profiles it, built with several versions of Go, position-independent and
//! not, with C and without, and stripped (`-s -w`): a sample at such an end has to have exactly
//! that stack, inlined functions included, and every stack of the program has to be whole, those of
//! collector, scheduler and signal handlers too.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::{Call, Profile, Sample};
use ebpf_profiler_core::trace::Frame;

use live_suite::process::Process;
use live_suite::selection::is_matrix;
use live_suite::workload::go;
use live_suite::workload::load::{Load, make_ordinary};

#[test]
#[ignore = "profiles: needs root"]
fn go_1_19() {
    test_needs::root!();
    test_needs::programs!("gcc");
    check("1.19", &["plain", "cgo"]);
}

/// Versions between the oldest and the newest.
mod matrix {
    #[test]
    #[ignore = "profiles: needs root"]
    fn go_1_22() {
        test_needs::root!();
        test_needs::programs!("gcc");
        super::check("1.22.10", super::ALL);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn go_1_25() {
        test_needs::root!();
        test_needs::programs!("gcc");
        super::check("1.25.5", super::ALL);
    }

    /// The runtime preempts goroutines by signals, whose handlers run on top of them.
    #[test]
    #[ignore = "profiles: needs root"]
    fn go_1_27_on_a_busy_machine() {
        test_needs::root!();
        test_needs::programs!("gcc", "g++");
        super::check_beside("1.27.3", super::ALL, 30);
    }
}

#[test]
#[ignore = "profiles: needs root"]
fn go_1_27() {
    test_needs::root!();
    test_needs::programs!("gcc");
    check("1.27.3", &["plain", "pie"]);
}

/// The installed Go, without fixtures.
#[test]
#[ignore = "profiles: needs root"]
fn go_installed() {
    test_needs::root!();
    test_needs::programs!("gcc", "go");
    check_in(&go::installed(), "installed", &["cgo"], 0);
}

/// Ways to build a program: as usual, position-independent, with C.
const ALL: &[&str] = &["plain", "pie", "cgo"];

/// Tests programs built in some ways, in the matrix in all: each new kind of build compiles Go's
/// library.
fn check(version: &str, ways: &[&str]) {
    check_beside(version, ways, 0);
}

/// As [`check`], beside busy programs.
fn check_beside(version: &str, ways: &[&str], load: usize) {
    if let Some(go) = go::fetched(version) {
        check_in(&go, version, ways, load);
    }
}

fn check_in(root: &Path, version: &str, ways: &[&str], load: usize) {
    let sources = ["goroutines.go", "goroutines_cgo.go"];
    let mut comparisons = Vec::new();
    let all = [
        ("plain", &sources[..1], &[][..]),
        ("pie", &sources[..1], &["-buildmode=pie"][..]),
        ("cgo", &sources[..], &[][..]),
    ];
    let chosen = all.into_iter().filter(|(name, ..)| is_matrix() || ways.contains(name));
    let build =
        |(name, sources, flags)| (name, go::build(root, &format!("{name}-{version}"), sources, flags));
    let programs: Vec<_> = chosen.map(build).collect();
    let (is_busy, name) = if load > 0 { (true, "busy") } else { (false, "whole") };
    let _load = (load > 0).then(|| {
        make_ordinary();
        Load::start(&go::folder(), load, 170)
    });
    // Programs of one version share the time in which they are profiled.
    let running: Vec<Running> = programs.iter().map(|(_, program)| Running::start(program)).collect();
    let seconds = if load > 0 {
        60
    } else if is_matrix() {
        12
    } else {
        5
    };
    let profile = profile(&running, Duration::from_secs(seconds));
    for ((way, _), running) in programs.iter().zip(&running) {
        let comparison = running.compare(&profile, version);
        println!("Go {version} {way}: {comparison:?}");
        println!("share\tgo\t{version}\t{name} {way}\t{}\t{}", comparison.whole, comparison.samples);
        comparisons.push(comparison);
    }
    comparisons.iter().for_each(|comparison| comparison.assert(is_busy));
    // Few signals reach a program that is in C most of the time.
    let is_preempted = programs.iter().any(|(way, _)| *way != "cgo");
    let is_sampled = comparisons.iter().any(|comparison| comparison.signals > 0);
    assert!(is_sampled || !is_preempted, "no signal handler was sampled");
}

/// A program whose goroutines all spin.
struct Running {
    child: Process,
    /// Stacks of the goroutines as the runtime reports them, root first.
    truth: Vec<Vec<String>>,
}

impl Running {
    fn start(program: &Path) -> Running {
        let mut child = Process::start(Command::new(program).stdout(Stdio::piped()));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let truth = lines.take_while(|line| line != "ready").map(|line| {
            let chain = line.strip_prefix("truth ").unwrap_or_else(|| panic!("the program says {line:?}"));
            chain.split(' ').map(str::to_owned).collect()
        });
        Running { truth: truth.collect(), child }
    }

    fn compare(&self, profile: &Profile, version: &str) -> Comparison {
        let own = profile.samples().filter(|sample| sample.process().pid == self.child.id());
        Comparison::of(own, &self.truth, version)
    }
}

/// Profiles these programs in one run.
fn profile(running: &[Running], duration: Duration) -> Profile {
    let builder = Profiler::builder()
        .deadline(std::time::Duration::from_secs(120))
        .frequency(997)
        .unwind(ebpf_profiler_unwind::tables());
    let builder = running.iter().fold(builder, |builder, running| builder.pid(running.child.id()));
    let profiler = builder.start().unwrap_or_else(|error| panic!("{error}"));
    profiler.run_for(duration).unwrap()
}

/// Compared samples.
#[derive(Debug, Default)]
struct Comparison {
    samples: u64,
    /// Samples whose stack reaches its root.
    whole: u64,
    /// For each known chain: its last function, samples with exactly that chain, samples with
    /// another.
    chains: Vec<(String, u64, u64)>,
    /// Frames of Go code without a name, and frames found by guessing.
    nameless: u64,
    guessed: u64,
    /// Samples of the runtime's own work.
    collector: u64,
    signals: u64,
    /// Signal samples with the handler as root, instead of the root of the interrupted code.
    cut_signals: u64,
    growth: u64,
    calls: u64,
    /// Examples of wrong stacks.
    wrong: Vec<String>,
}

impl Comparison {
    fn of<'p>(samples: impl Iterator<Item = Sample<'p>>, truth: &[Vec<String>], version: &str) -> Comparison {
        let chains = truth.iter().map(|chain| (chain.last().unwrap().clone(), 0, 0)).collect();
        let mut comparison = Comparison { chains, ..Comparison::default() };
        for sample in samples {
            comparison.take(&sample, truth, version);
        }
        comparison
    }

    fn take(&mut self, sample: &Sample<'_>, truth: &[Vec<String>], version: &str) {
        let count = sample.count();
        let names = user_functions(sample);
        self.samples += count;
        let whole = sample.trace().is_whole();
        self.whole += if whole { count } else { 0 };
        if !whole && self.wrong.len() < 5 {
            self.wrong.push(format!("{:?}: {}", sample.trace().stop(), names.join(" ")));
        }
        let has = |part: &str| names.iter().any(|name| name.contains(part));
        let worker =
            if version == LOSING { "runtime.gcBgMarkWorker.func2" } else { "runtime.gcBgMarkWorker" };
        let collects = names.iter().any(|name| name == worker);
        self.collector += if collects && has("runtime.systemstack") { count } else { 0 };
        self.signals += if has("runtime.sigtramp") { count } else { 0 };
        let is_cut = names.first().is_some_and(|name| name.starts_with("runtime.sigtramp"));
        self.cut_signals += if is_cut { count } else { 0 };
        self.growth += if has("runtime.newstack") { count } else { 0 };
        self.calls += if has("main.writing") { count } else { 0 };
        let guessed =
            |frame: &_| matches!(frame, Frame::Native { found, .. } if format!("{found:?}") == "Guessed");
        self.guessed += if sample.trace().frames().any(|frame| guessed(&frame.frame())) { count } else { 0 };
        self.nameless += if names.iter().any(|name| name.starts_with("plain-") || name.starts_with("pie-")) {
            count
        } else {
            0
        };
        for (chain, (leaf, right, other)) in truth.iter().zip(&mut self.chains) {
            if !names.contains(leaf) {
                continue;
            }
            if is_above(chain, &names) {
                *right += count;
            } else if whole || !is_end_of(chain, leaf, &names) {
                *other += count;
                if self.wrong.len() < 5 {
                    self.wrong.push(format!("{}\n  not {}", names.join(" "), chain.join(" ")));
                }
            }
        }
    }

    /// Requires that nearly all samples are whole. On a busy machine the collector runs too rarely
    /// to be sampled for certain.
    fn assert(&self, is_busy: bool) {
        let share = if is_busy { 999 } else { 998 };
        assert!(self.samples > 500, "too few samples: {self:#?}");
        // A raw sample holds a copy of one stack only, and some walks need two.
        assert!(self.whole * 1000 >= self.samples * share, "not whole: {self:#?}");
        assert_eq!(self.nameless, 0, "{self:#?}");
        assert_eq!(self.cut_signals, 0, "the signal handler is a root: {self:#?}");
        for (leaf, right, other) in &self.chains {
            assert!(*right > 0, "{leaf} has no sample: {self:#?}");
            assert!(other * 1000 <= *right, "{leaf}: {self:#?}");
        }
        assert!((is_busy || self.collector > 0) && self.calls > 0, "{self:#?}");
    }
}

/// Returns the user functions of a stack, root first.
fn user_functions(sample: &Sample<'_>) -> Vec<String> {
    let is_user = |call: &Call<'_>| matches!(call, Call::Function { frame, .. } if !matches!(frame.frame(), Frame::Kernel { .. }));
    sample.trace().calls().filter(is_user).map(|call| call.to_string()).collect()
}

/// A version whose `systemstack` sets up no frame pointer (up to 1.20): its caller is missing.
const LOSING: &str = "1.19";

/// Returns `true` if a stack begins with the functions of a chain.
///
/// The runtime reports neither C functions nor its own wrappers, and reports its calls into C under
/// the name of the function that they stand for.
fn is_above(chain: &[String], names: &[String]) -> bool {
    let is_lost = |name: &str| name == "runtime.systemstack_switch";
    let mut names = names.iter();
    chain.iter().filter(|name| !is_lost(name)).all(|wanted| {
        names.find(|name| *name == wanted || !is_silent(name)).is_some_and(|name| name == wanted)
    })
}

/// Returns `true` if the functions down to the leaf are the last ones of the chain, which is all
/// that a cut stack has.
fn is_end_of(chain: &[String], leaf: &str, names: &[String]) -> bool {
    let down_to_leaf = names.iter().position(|name| name == leaf).map_or(&[][..], |at| &names[..=at]);
    let told =
        |names: &[String]| -> Vec<String> { names.iter().filter(|name| !is_silent(name)).cloned().collect() };
    told(chain).ends_with(&told(down_to_leaf))
}

/// Returns `true` if the runtime may omit a function or report it under another name.
fn is_silent(name: &str) -> bool {
    name.starts_with("runtime.") || name == "crosscall2" || !name.contains('.') || name.contains('+')
}
