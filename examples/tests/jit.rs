//! Names of JIT-compiled code compared with the known call chains of the programs.
//!
//! ```sh
//! sudo -E env PATH="$PATH" cargo test --release -p examples --test jit -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! | test | the runtime writes |
//! | --- | --- |
//! | Node.js, `--perf-basic-prof` | a perf map |
//! | Node.js, `--perf-prof` | a jitdump file, with lines |
//! | JVM, `jcmd PID Compiler.perfmap` | a perf map, once, while it runs |
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::{Profile, Sample};

/// Seconds that each program runs before it is profiled, so that its code is compiled.
const WARM_UP: Duration = Duration::from_secs(2);

#[test]
#[ignore = "profiles: needs root"]
fn node_functions_have_names_of_perf_map() {
    test_needs::root!();
    test_needs::programs!("node");
    let outcome = node("perf-map", "--perf-basic-prof");
    assert!(outcome.exact_per_mille() >= 990, "{outcome:?}");
}

#[test]
#[ignore = "profiles: needs root"]
fn node_functions_have_names_and_lines_of_jitdump() {
    test_needs::root!();
    test_needs::programs!("node");
    let outcome = node("jitdump", "--perf-prof");
    assert!(outcome.exact_per_mille() >= 990, "{outcome:?}");
    assert!(outcome.with_lines > 0, "{outcome:?}");
}

#[test]
#[ignore = "profiles: needs root"]
fn java_methods_have_names_of_perf_map() {
    test_needs::root!();
    test_needs::programs!("javac", "java", "jcmd");
    let folder = folder("java");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/JitChain.java");
    run(Command::new("javac").arg("-d").arg(&folder).arg(source));
    // Inlined methods are not in a perf map.
    let program = Running::start(
        Command::new("java")
            .args(["-XX:-Inline", "-XX:+PreserveFramePointer", "-cp"])
            .arg(&folder)
            .args(["JitChain", "20"]),
    );
    std::thread::sleep(WARM_UP);
    run(Command::new("jcmd").args([&program.0.id().to_string(), "Compiler.perfmap"]).stdout(Stdio::null()));
    // Names alone: by frame pointers, the root side of HotSpot's stacks is not always reached.
    let outcome =
        Outcome::of(&program.profile(), &["JitChain.outer()", "JitChain.middle", "JitChain.spin"], false);
    println!("java: {outcome:?}");
    assert!(outcome.exact_per_mille() >= 950, "{outcome:?}");
}

fn node(name: &str, flag: &str) -> Outcome {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/jit_chain.js");
    // Interpreted functions get code of their own, which is named too; inlined ones would not be.
    let flags = [flag, "--interpreted-frames-native-stack", "--no-turbo-inlining"];
    let folder = folder(name);
    let program = Running::start(Command::new("node").args(flags).arg(program).arg("20").current_dir(folder));
    std::thread::sleep(WARM_UP);
    let outcome = Outcome::of(&program.profile(), &["outer", "middle", "spin"], true);
    println!("node {flag}: {outcome:?}");
    outcome
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jit").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// A program that runs until this is dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn profile(&self) -> Profile {
        let profiler = Profiler::builder()
            .deadline(std::time::Duration::from_secs(120))
            .frequency(499)
            .pid(self.0.id())
            .unwind(ebpf_profiler_unwind::tables())
            .start()
            .unwrap_or_else(|error| panic!("{error}"));
        profiler.run_for(Duration::from_secs(3)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", self.0.id()));
    }
}

/// Samples of the innermost function, by whether their chain is the one that the program makes.
#[derive(Debug, Default)]
struct Outcome {
    exact: u64,
    wrong: u64,
    with_lines: u64,
    /// A stack that is not exact, for the reader of a failed test.
    example: Vec<String>,
}

impl Outcome {
    /// Judges samples whose leaf is `spin`: its callers have to be 20 times `middle`, then `outer`, and with
    /// `to_root` the stack has to be whole.
    fn of(profile: &Profile, [outer, middle, spin]: &[&str; 3], to_root: bool) -> Outcome {
        let mut outcome = Outcome::default();
        for sample in profile.samples() {
            let chain = chain(&sample, &[outer, middle, spin]);
            if chain.last() != Some(spin) {
                continue;
            }
            let expected = [outer].into_iter().chain([middle; 20]).chain([spin]).copied();
            if (sample.trace().is_whole() || !to_root) && chain.iter().copied().eq(expected) {
                outcome.exact += sample.count();
            } else {
                outcome.wrong += sample.count();
                outcome.example = sample.trace().frames().map(|frame| frame.to_string()).collect();
            }
            let has_line = |symbol: &ebpf_profiler_core::symbol::Symbol| symbol.line > 0;
            let lines = sample
                .trace()
                .frames()
                .any(|frame| frame.script().is_some() && frame.symbols().iter().any(has_line));
            outcome.with_lines += u64::from(lines);
        }
        outcome
    }

    fn exact_per_mille(&self) -> u64 {
        assert!(self.exact + self.wrong > 100, "too few samples: {self:?}");
        self.exact * 1000 / (self.exact + self.wrong)
    }
}

/// Returns the functions of a stack that are among `known`, root first.
fn chain<'n>(sample: &Sample<'_>, known: &[&'n str]) -> Vec<&'n str> {
    let names =
        sample.trace().frames().filter(|frame| frame.script().is_some()).map(|frame| frame.to_string());
    let mut chain: Vec<&str> =
        names.filter_map(|name| known.iter().find(|known| is_of(&name, known)).copied()).collect();
    chain.reverse();
    chain
}

/// Returns `true` if a runtime's name is that of a function: `JS:*spin /srv/a.js:3:5`, `void JitChain.spin()`.
fn is_of(name: &str, function: &str) -> bool {
    let bounded = |at: usize| {
        let after = name[at + function.len()..].chars().next();
        let before = name[..at].chars().next_back();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    };
    name.match_indices(function).any(|(at, _)| bounded(at))
}
