//! Contexts of threads and processes as OpenTelemetry specifies them, against the functions that run with them.
//!
//! ```sh
//! sudo -E env PATH="$PATH" cargo test --profile ci -p live-suite --test otel_context -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! Each context of `programs/otel_context.c` belongs to a function: a sample with that function in
//! its stack has to have its ids and attributes, and one with a function that runs without a context,
//! or while one is changed, none.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Health;
use ebpf_profiler_core::profile::{Call, Labels, Profile, Sample};

#[test]
#[ignore = "profiles: needs root"]
fn variable_of_the_program() {
    test_needs::root!();
    test_needs::programs!("gcc");
    check(&Build::own("own", &["-rdynamic"]), &["swaps"]);
}

#[test]
#[ignore = "profiles: needs root"]
fn variable_of_a_library_by_descriptor() {
    test_needs::root!();
    test_needs::programs!("gcc");
    check(&Build::linked("gnu2"), &["swaps"]);
}

#[test]
#[ignore = "profiles: needs root"]
fn variable_of_a_library_that_is_loaded_later() {
    test_needs::root!();
    test_needs::programs!("gcc");
    check(&Build::loaded("gcc", "gnu"), &["swaps"]);
}

/// Further ways to build.
mod matrix {
    use super::{Build, check};

    #[test]
    #[ignore = "profiles: needs root"]
    fn other_models() {
        test_needs::root!();
        test_needs::programs!("gcc", "musl-gcc");
        let exported = "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1";
        check(&Build::own("static", &["-static-pie", exported]), &[]);
        check(&Build::own("fixed", &["-no-pie", "-rdynamic"]), &[]);
        check(&Build::linked("gnu"), &[]);
        check(&Build::loaded("gcc", "gnu2"), &["swaps"]);
        check(&Build::loaded("musl-gcc", "gnu"), &["swaps"]);
    }
}

/// The context of the process comes after the profiler, and another one after it.
#[test]
#[ignore = "profiles: needs root"]
fn contexts_that_come_late_are_found() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let mut running = Running::start(&Build::own("own", &["-rdynamic"]), &["late"]);
    let profiler = profiler(&running).start().unwrap_or_else(|error| panic!("{error}"));
    std::thread::sleep(Duration::from_millis(500));
    let before = profiler.take_profile().unwrap();
    assert!(before.samples().all(|sample| sample.labels().is_empty()));
    assert!(before.processes().iter().all(|process| process.attributes.is_empty()));
    running.publish();
    let mut comparison = Comparison::default();
    for _ in 0..30 {
        std::thread::sleep(Duration::from_secs(1));
        comparison = Comparison::of(&profiler.take_profile().unwrap());
        if comparison.right > 100 && comparison.missing == 0 && !comparison.instances.is_empty() {
            break;
        }
    }
    println!("{comparison:?}");
    assert!(
        comparison.right > 100 && comparison.missing == 0 && comparison.wrong.is_empty(),
        "{comparison:?}"
    );
    assert_eq!(comparison.instances, BTreeSet::from(["two".to_owned()]));
    profiler.stop().unwrap();
}

/// Records at addresses that are not readable, with false sizes, and one that another thread changes all the time.
#[test]
#[ignore = "profiles: needs root"]
fn hostile_contexts_are_bounded_and_counted() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let running = Running::start(&Build::own("own", &["-rdynamic"]), &["hostile"]);
    let profiler = profiler(&running).start().unwrap_or_else(|error| panic!("{error}"));
    std::thread::sleep(Duration::from_secs(4));
    let (profile, health) = profiler.finish().unwrap();
    let samples: u64 = profile.samples().map(|sample| sample.count()).sum();
    println!(
        "{samples} samples, {} unlabelled, {} cut",
        health.pipeline.unlabelled, health.pipeline.cut_labels
    );
    assert!(
        samples > 500 && health.pipeline.unlabelled > 50 && health.pipeline.cut_labels > 10,
        "{health:?}"
    );
    for sample in profile.samples() {
        assert!(sample.labels().iter().count() <= Labels::MAX);
    }
}

fn profiler(running: &Running) -> ebpf_profiler_core::live::Builder {
    Profiler::builder()
        .deadline(Duration::from_secs(120))
        .frequency(997)
        .unwind(ebpf_profiler_unwind::tables())
        .process_labels(ebpf_profiler_hll::labels())
        .process_contexts()
        .pid(running.child.id())
}

fn check(program: &Build, ways: &[&str]) {
    let mut running = Running::start(program, ways);
    let profiler = profiler(&running).start().unwrap_or_else(|error| panic!("{error}"));
    std::thread::sleep(Duration::from_secs(3));
    running.publish();
    std::thread::sleep(Duration::from_secs(3));
    let (profile, health) = profiler.finish().unwrap();
    let comparison = Comparison::of(&profile);
    println!(
        "{}: {comparison:?}, {} unlabelled, {} contexts, {:?}",
        program.name,
        health.pipeline.unlabelled,
        health.pipeline.registry.contexts,
        health.pipeline.registry.context_failures
    );
    comparison.assert(&health);
}

/// A program.
struct Build {
    name: String,
    program: PathBuf,
}

impl Build {
    /// Builds it with the variable in itself.
    fn own(name: &str, flags: &[&str]) -> Build {
        Build::with("gcc", name, "otel_context.c", &[&["-DOWN", "-pthread"], flags].concat())
    }

    /// Builds it with the variable in a library with which it is linked.
    fn linked(dialect: &str) -> Build {
        let library = Build::library("gcc", dialect);
        let library = library.program.to_str().unwrap();
        Build::with("gcc", &format!("linked-{dialect}"), "otel_context.c", &["-pthread", library])
    }

    /// Builds it with the variable in a library that it loads.
    fn loaded(compiler: &str, dialect: &str) -> Build {
        let library = Build::library(compiler, dialect);
        let path = format!("-DLOADED=\"{}\"", library.program.display());
        let name = format!("loaded-{compiler}-{dialect}");
        Build::with(compiler, &name, "otel_context.c", &["-pthread", &path, "-ldl"])
    }

    fn library(compiler: &str, dialect: &str) -> Build {
        let dialect_flag = format!("-mtls-dialect={dialect}");
        let name = format!("lib-{compiler}-{dialect}.so");
        Build::with(compiler, &name, "otel_context_library.c", &["-shared", "-fPIC", &dialect_flag])
    }

    fn with(compiler: &str, name: &str, source: &str, flags: &[&str]) -> Build {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("otel");
        std::fs::create_dir_all(&directory).unwrap();
        let program = directory.join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
        // Another test may run it.
        let who = (std::process::id(), std::thread::current().id());
        let new = program.with_extension(format!("{who:?}"));
        let mut command = Command::new(compiler);
        command.args(["-O1", "-g0", "-o"]).arg(&new).arg(source).args(flags);
        assert!(command.status().unwrap().success(), "{compiler}");
        std::fs::rename(new, &program).unwrap();
        Build { name: name.into(), program }
    }
}

struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(build: &Build, ways: &[&str]) -> Running {
        let mut command = Command::new(&build.program);
        let mut child = command.args(ways).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running { child, lines };
        running.expect("ready");
        running
    }

    fn expect(&mut self, expected: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), expected);
    }

    /// Lets the program publish another context with one more key.
    fn publish(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
        self.expect("published");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The result for a profile.
#[derive(Debug, Default)]
struct Comparison {
    samples: u64,
    right: u64,
    wrong: Vec<String>,
    /// Samples with a context and without its labels.
    missing: u64,
    /// Samples without a context.
    without: u64,
    /// Samples while a context is changed.
    updating: u64,
    /// Samples with the key that was added.
    late: u64,
    functions: BTreeMap<String, u64>,
    /// Ids of the service instance.
    instances: BTreeSet<String>,
}

impl Comparison {
    fn of(profile: &Profile) -> Comparison {
        let mut comparison = Comparison::default();
        profile.samples().for_each(|sample| comparison.take(&sample));
        for process in profile.processes() {
            let get =
                |key| process.attributes.iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value);
            let Some(instance) = get("service.instance.id") else { continue };
            assert_eq!(get("service.name"), Some("shop"));
            comparison.instances.insert(instance.to_owned());
        }
        comparison
    }

    fn take(&mut self, sample: &Sample<'_>) {
        self.samples += sample.count();
        let functions = sample.trace().calls().filter_map(|call| match &call {
            Call::Function { .. } => Some(call.to_string()),
            _ => None,
        });
        let is_known =
            |name: &String| ["work0", "work1", "work2", "work3", "without", "updating"].contains(&&**name);
        let Some(name) = functions.into_iter().find(is_known) else { return };
        *self.functions.entry(name.clone()).or_default() += sample.count();
        let labels = sample.labels();
        match (name.strip_prefix("work").and_then(|number| number.parse().ok()), labels.is_empty()) {
            (None, true) if name == "without" => self.without += sample.count(),
            (None, true) => self.updating += sample.count(),
            (Some(_), true) => self.missing += sample.count(),
            (Some(number), false) if is_of(number, labels) => {
                self.right += sample.count();
                self.late += u64::from(labels.get("late.key").is_some()) * sample.count();
            }
            _ => self.wrong.push(format!("{name}: {labels:?}")),
        }
    }

    fn assert(&self, health: &Health) {
        assert!(self.wrong.is_empty(), "{:#?}", &self.wrong[..self.wrong.len().min(10)]);
        assert!(self.right > 1000 && self.without > 100 && self.updating > 10, "too few samples: {self:?}");
        assert!(self.missing <= health.pipeline.unlabelled, "{self:?}");
        assert!(self.missing * 100 <= self.right, "{self:?}");
        assert!(self.late > 100, "{self:?}");
        for function in ["work0", "work1", "work2", "work3"] {
            assert!(self.functions.contains_key(function), "{function}: {self:?}");
        }
        assert!(self.instances.contains("one"), "{self:?}");
        let unknown = ["changes while it is read"];
        assert!(health.pipeline.registry.context_failures.keys().all(|reason| unknown.contains(reason)));
    }
}

/// Returns `true` if labels are those of function `work<number>`.
fn is_of(number: u8, labels: &Labels) -> bool {
    let text = |key| labels.get(key).map(ToString::to_string).unwrap_or_default();
    let Some((trace, span)) = labels.span() else { return false };
    let count = 4 + usize::from(labels.get("late.key") == Some(&"late".into()));
    (trace, span) == ([16 + number; 16], [32 + number; 8])
        && text("http.route") == format!("/work{number}")
        && ["thread 0", "thread 1"].contains(&&*text("thread"))
        && labels.iter().count() == count
}
