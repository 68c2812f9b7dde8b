//! Names of JIT-compiled code compared with the known call chains of the programs.
//!
//! ```sh
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test jit -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! | test | the runtime writes |
//! | --- | --- |
//! | Node.js, `--perf-basic-prof` | a perf map |
//! | Node.js, `--perf-prof` | a jitdump file, with lines |
//! | Node.js in other namespaces, and of another user | a perf map, below another `/tmp`, with another number |
//! | JVM, `jcmd PID Compiler.perfmap` | a perf map, once, while it runs |
//! | PHP, `opcache.jit_debug` | a perf map |
//!
//! No language is plugged in, but where machine code of others is in a process that a language knows.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod claimed;
mod namespaces;
mod outcome;
mod scripts;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Builder;
use ebpf_profiler_core::profile::Profile;
use outcome::Outcome;

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
    run(Command::new("jcmd").args([&program.pid.to_string(), "Compiler.perfmap"]).stdout(Stdio::null()));
    // Names alone: by frame pointers, the root side of HotSpot's stacks is not always reached.
    let outcome =
        Outcome::of(&program.profile(), &["JitChain.outer()", "JitChain.middle", "JitChain.spin"], false);
    println!("java: {outcome:?}");
    assert!(outcome.exact_per_mille() >= 950, "{outcome:?}");
}

fn node(name: &str, flag: &str) -> Outcome {
    let program = Running::start(node_command("node", flag).current_dir(folder(name)));
    std::thread::sleep(WARM_UP);
    let outcome = Outcome::of(&program.profile(), &["outer", "middle", "spin"], true);
    println!("node {flag}: {outcome:?}");
    outcome
}

/// Returns the command that runs the chain in Node.js, as words behind `program`.
fn node_command(program: &str, flag: &str) -> Command {
    let mut command = Command::new(program);
    // Interpreted functions get code of their own, which is named too; inlined ones would not be.
    command.args([flag, "--interpreted-frames-native-stack", "--no-turbo-inlining"]);
    command.arg(source("jit_chain.js")).arg("20");
    command
}

/// Returns the path of a test program.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
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
struct Running {
    child: Child,
    /// The process that runs the chain: the child, or one that it started.
    pid: u32,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        Running { child, pid }
    }

    /// Starts a program that starts the one with the chain.
    fn start_parent(command: &mut Command) -> Running {
        let mut running = Running::start(command);
        let children = format!("/proc/{0}/task/{0}/children", running.child.id());
        let deadline = Instant::now() + Duration::from_secs(10);
        while running.pid == running.child.id() {
            assert!(Instant::now() < deadline, "{command:?} has started nothing");
            std::thread::sleep(Duration::from_millis(10));
            let text = std::fs::read_to_string(&children).unwrap();
            running.pid = text.split_whitespace().next().map_or(running.pid, |pid| pid.parse().unwrap());
        }
        running
    }

    fn profile(&self) -> Profile {
        self.profile_with(|builder| builder)
    }

    fn profile_with(&self, adjust: impl FnOnce(Builder) -> Builder) -> Profile {
        let builder = Profiler::builder()
            .deadline(Duration::from_secs(120))
            .frequency(499)
            .pid(self.pid)
            .unwind(ebpf_profiler_unwind::tables());
        let profiler = adjust(builder).start().unwrap_or_else(|error| panic!("{error}"));
        profiler.run_for(Duration::from_secs(3)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: a signal to a process whose parent is this program or its child, which has not waited for
        // it yet.
        unsafe { libc::kill(self.pid as i32, libc::SIGKILL) };
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", self.pid));
    }
}
