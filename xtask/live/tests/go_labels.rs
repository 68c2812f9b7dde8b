//! Labels of goroutines, against the functions that run with them and against Go's own profiler.
//!
//! ```sh
//! cargo xtask fixtures go
//! sudo -E env PATH="$PATH" cargo test --profile ci -p live-suite --test go_labels -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! Each set of labels of `programs/labels.go` belongs to a function: a sample with that function in
//! its stack has to have its labels, all of one set, or to be counted as one without. The shares of
//! the values have to be those in the CPU profile that the program writes in the same seconds.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Health;
use ebpf_profiler_core::profile::{Call, Profile, Sample};
use live_suite::paths::fixtures;
use live_suite::workload::go::{build, fetched, installed};

#[test]
#[ignore = "profiles: needs root"]
fn go_1_19() {
    test_needs::root!();
    check_fixture("1.19", "plain", &["labels.go"], &[]);
}

/// Versions between the oldest and the newest.
mod matrix {
    #[test]
    #[ignore = "profiles: needs root"]
    fn go_1_22_position_independent() {
        test_needs::root!();
        super::check_fixture("1.22.10", "pie", &["labels.go"], &["-buildmode=pie"]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn go_1_25_with_c() {
        test_needs::root!();
        test_needs::programs!("gcc");
        super::check_fixture("1.25.5", "cgo", &["labels.go", "labels_cgo.go"], &[]);
    }
}

#[test]
#[ignore = "profiles: needs root"]
fn go_1_27() {
    test_needs::root!();
    check_fixture("1.27.3", "plain", &["labels.go"], &[]);
}

/// The installed Go, without fixtures.
#[test]
#[ignore = "profiles: needs root"]
fn go_installed() {
    test_needs::root!();
    test_needs::programs!("go");
    check(&installed(), "installed", &["labels.go"], &["-buildmode=pie"]);
}

/// The time of a sample in the kernel, with labels and without: of a program that has them, and of one that has none while the kernel
/// side can copy those of others.
#[test]
#[ignore = "measures: needs root"]
fn cost() {
    test_needs::root!();
    test_needs::programs!("go", "sh");
    let program = build(&installed(), "labels-cost", &["labels.go"], &[]);
    let go = Running::start(&program);
    let shell = Running::of(Command::new("sh").args(["-c", "echo ready; while :; do :; done"]));
    let _statistics = Statistics::enable();
    let pids = [go.child.id(), shell.child.id()];
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    for (what, is_go_stopped) in [("with labels", false), ("of another program", true)] {
        go.signal(if is_go_stopped { "STOP" } else { "CONT" });
        shell.signal(if is_go_stopped { "CONT" } else { "STOP" });
        let pair = || [false, true].map(|has_labels| nanoseconds(pids, has_labels));
        let pairs: Vec<[f64; 2]> = (0..15).map(|_| pair()).collect();
        let of = |index: usize| pairs.iter().map(move |pair| pair[index]);
        let [without, with] = [0, 1].map(|index| median(of(index).collect()));
        // Other programs add time to both, so the least times are the nearest to what a sample takes.
        let [least, least_with] = [0, 1].map(|index| of(index).fold(f64::MAX, f64::min));
        let added = median(pairs.iter().map(|pair| pair[1] - pair[0]).collect());
        println!("{what}: {without:.0} ns a sample, {with:.0} ns with labels, {added:+.0} ns in the median");
        println!(
            "    least {least:.0} ns and {least_with:.0} ns, {:+.0} ns: {pairs:.0?}",
            least_with - least
        );
    }
}

/// The kernel's statistics of programs.
struct Statistics(String);

impl Statistics {
    const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

    fn enable() -> Statistics {
        let before = std::fs::read_to_string(Statistics::SWITCH).unwrap();
        std::fs::write(Statistics::SWITCH, "1").unwrap();
        Statistics(before)
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let _ = std::fs::write(Statistics::SWITCH, &self.0);
    }
}

/// Returns the time of a sample of these processes in the kernel.
fn nanoseconds(pids: [u32; 2], has_labels: bool) -> f64 {
    let builder = Profiler::builder().frequency(4999).unwind(ebpf_profiler_unwind::tables());
    let builder = if has_labels { builder.process_labels(ebpf_profiler_hll::labels()) } else { builder };
    let builder = pids.iter().fold(builder, |builder, &pid| builder.pid(pid));
    let profiler = builder.start().unwrap_or_else(|error| panic!("{error}"));
    std::thread::sleep(Duration::from_secs(1));
    let (_, health) = profiler.finish().unwrap();
    health.run_time.as_nanos() as f64 / (health.ticks - health.filtered) as f64
}

fn check_fixture(version: &str, way: &str, sources: &[&str], flags: &[&str]) {
    let Some(go) = fetched(version) else { return };
    check(&go, &format!("{version}-{way}"), sources, flags);
}

fn check(go: &Path, name: &str, sources: &[&str], flags: &[&str]) {
    let program = build(go, &format!("labels-{name}"), sources, flags);
    let mut running = Running::start(&program);
    let builder = Profiler::builder()
        .deadline(Duration::from_secs(120))
        .frequency(if is_matrix() { 4999 } else { 997 })
        .unwind(ebpf_profiler_unwind::tables())
        .process_labels(ebpf_profiler_hll::labels())
        .pid(running.child.id());
    let profiler = builder.start().unwrap_or_else(|error| panic!("{error}"));
    let own = program.with_extension("pprof");
    let seconds = if is_matrix() { 60 } else { 6 };
    running.profile(&own, seconds);
    let (profile, health) = profiler.finish().unwrap();
    let comparison = Comparison::of(&profile);
    println!(
        "Go {name}: {comparison:?}, {} unlabelled, {} cut",
        health.pipeline.unlabelled, health.pipeline.cut_labels
    );
    comparison.assert(&health);
    match pprof() {
        Some(tool) => compare_shares(&tool, &profile, &own),
        None => println!("no pprof in a fixture: shares are not compared"),
    }
}

/// Returns the program `pprof` of a version of Go that comes with it compiled.
fn pprof() -> Option<PathBuf> {
    let tool = |version| fixtures().join(format!("go-{version}/pkg/tool/linux_amd64/pprof"));
    ["1.22.10", "1.19"].map(tool).into_iter().find(|tool| tool.exists())
}

/// Returns `true` if tests run at length, as in `cargo xtask matrix`.
fn is_matrix() -> bool {
    std::env::var_os("TRUTH_MATRIX").is_some()
}

/// The program.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(program: &Path) -> Running {
        Running::of(&mut Command::new(program))
    }

    fn of(command: &mut Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running { child, lines };
        running.expect("ready");
        running
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap().success());
    }

    /// Waits until the program prints a line.
    fn expect(&mut self, expected: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), expected);
    }

    /// Waits while the program writes a CPU profile of its own.
    fn profile(&mut self, to: &Path, seconds: u64) {
        writeln!(self.child.stdin.as_mut().unwrap(), "profile {} {seconds}", to.display()).unwrap();
        self.expect("done");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Functions that leave a goroutine.
const SCHEDULER: [&str; 3] = ["runtime.mcall", "runtime.goschedImpl", "runtime.schedule"];

/// The result for a profile.
#[derive(Debug, Default)]
struct Comparison {
    samples: u64,
    /// Samples in a function with labels, with exactly its labels, and with others.
    right: u64,
    wrong: Vec<String>,
    /// Samples in a function with labels that have none, and their stacks.
    missing: u64,
    missing_in: Vec<String>,
    /// The same in the scheduler, which has taken the thread from the goroutine already.
    descheduled: u64,
    /// Samples in the function without labels.
    without: u64,
    /// Samples by function.
    functions: BTreeMap<String, u64>,
}

impl Comparison {
    fn of(profile: &Profile) -> Comparison {
        let mut comparison = Comparison::default();
        profile.samples().for_each(|sample| comparison.take(&sample));
        comparison
    }

    fn take(&mut self, sample: &Sample<'_>) {
        let is_known = |name: &str| {
            let name = name.strip_prefix("main.").unwrap_or_default();
            name.starts_with("work") || ["inherited", "unlabelled", "many"].contains(&name)
        };
        self.samples += sample.count();
        let functions = sample.trace().calls().filter_map(|call| match &call {
            Call::Function { .. } => Some(call.to_string()),
            _ => None,
        });
        let names: Vec<String> = functions.collect();
        let Some(name) = names.iter().find(|name| is_known(name)) else { return };
        let name = name.trim_start_matches("main.").to_owned();
        let labels: Vec<(&str, String)> =
            sample.labels().iter().map(|label| (label.key(), label.value().to_string())).collect();
        *self.functions.entry(name.clone()).or_default() += sample.count();
        let is_right = is_of(&name, &labels);
        match (name.as_str(), labels.is_empty(), is_right) {
            ("unlabelled", _, true) => self.without += sample.count(),
            (_, true, _) if names.iter().any(|name| SCHEDULER.contains(&name.as_str())) => {
                self.descheduled += sample.count();
            }
            (_, true, _) => {
                self.missing += sample.count();
                self.missing_in.push(names.join(" "));
            }
            (_, _, true) => self.right += sample.count(),
            _ => self.wrong.push(format!("{name}: {labels:?}")),
        }
    }

    fn assert(&self, health: &Health) {
        assert!(self.wrong.is_empty(), "{:#?}", &self.wrong[..self.wrong.len().min(10)]);
        assert!(self.right > 1000 && self.without > 0, "too few samples: {self:?}");
        // Those of the first moments, before the process is published.
        assert!(self.missing <= health.pipeline.unlabelled, "{self:?}");
        assert!(self.missing * 100 <= self.right, "{self:?}");
        for function in ["work0", "work1", "work2", "work3", "inherited", "many"] {
            assert!(self.functions.contains_key(function), "{function}: {self:?}");
        }
    }
}

/// Returns `true` if labels are those of a function, of one set.
fn is_of(function: &str, labels: &[(&str, String)]) -> bool {
    let numbered = |at: usize, (key, value): &(&str, String)| {
        *key == format!("key{at:02}") && *value == format!("value{at}")
    };
    match (function, labels) {
        ("unlabelled", []) => true,
        ("inherited", [("parent", value)]) => value.starts_with("work"),
        ("many", [_] | [_, _, _, _, _, _, _, _]) => {
            labels.iter().enumerate().all(|(at, label)| numbered(at, label))
        }
        ("workInC", [("work", value)]) => value == function,
        (_, [("empty", empty), ("request", request), ("work", work)]) => {
            work == function
                && empty.is_empty()
                && request.strip_prefix(function).is_some_and(|rest| rest.starts_with('/'))
        }
        _ => false,
    }
}

/// Compares the shares of the functions by label with those of Go's own profile, both as `go tool
/// pprof` shows them.
fn compare_shares(tool: &Path, profile: &Profile, own: &Path) {
    let ours = own.with_extension("ours");
    std::fs::write(&ours, ebpf_profiler_otlp::pprof(profile)).unwrap();
    let [ours, own] = [&ours, own].map(|path| counts(tool, path));
    println!("ours {ours:?}\nGo's {own:?}");
    assert!(own.len() >= 4, "{own:?}");
    let sum = |counts: &BTreeMap<String, f64>| counts.values().sum::<f64>();
    // Go's profile has at most 100 samples a second; four standard deviations.
    let error = 4.0 * (0.25 / sum(&own)).sqrt();
    for (value, count) in &own {
        let [share, other] = [count / sum(&own), ours.get(value).copied().unwrap_or_default() / sum(&ours)];
        assert!((share - other).abs() < error, "{value}: {other} instead of {share}, {error} are allowed");
    }
}

/// Returns the samples by values of the label `work` in a profile.
fn counts(tool: &Path, profile: &Path) -> BTreeMap<String, f64> {
    let output = Command::new(tool).arg("-raw").arg(profile).stderr(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut counts, mut count) = (BTreeMap::new(), 0.0);
    for line in text.lines() {
        // "   3   30000000: 1 2 3", then "    request:[work1/7] work:[work1]".
        if let Some((numbers, _)) = line.split_once(": ")
            && let Some(first) = numbers.split_whitespace().next().and_then(|first| first.parse().ok())
        {
            count = first;
        }
        if let Some((_, rest)) = line.split_once(" work:[")
            && let Some((name, _)) = rest.split_once(']')
        {
            *counts.entry(name.to_owned()).or_default() += count;
        }
    }
    counts
}
