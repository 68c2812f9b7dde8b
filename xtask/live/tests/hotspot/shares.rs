//! Shares of functions compared with those of the virtual machine's own tools, which sample the
//! same run.
//!
//! | tool | takes the stack | samples |
//! |---|---|---|
//! | JDK Flight Recorder | of a thread at any instruction | 100 a second |
//! | thread dump by SIGQUIT, that of `jstack` | of all threads, at a safepoint | 20 a second |
//!
//! Two lists of counts are of the same shares if their chi-squared statistic is below that of
//! chance in 1 of 1,000 runs.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ebpf_profiler_core::profile::{Kind, Profile};

use crate::machine::{Machine, compile};
use live_suite::comparison::chi_squared::{chi_squared, limit};
use live_suite::sampled::{FREQUENCY, profiler};

/// The functions of `Shares.java`.
const FUNCTIONS: [&str; 4] = ["first", "second", "third", "fourth"];

/// Duration of the profile.
const PROFILE: Duration = Duration::from_secs(25);

/// Time between thread dumps.
const DUMP: Duration = Duration::from_millis(50);

/// Least number of samples of each tool.
const MIN_SAMPLES: u64 = 40;

/// Samples of each function.
type Counts = [u64; FUNCTIONS.len()];

/// Compares the shares of a machine's run.
pub(crate) fn check(machine: &Machine) {
    let program = Program::start(machine);
    let pid = program.child.id();
    let tools = machine.java.parent().unwrap();
    let jcmd = |arguments: &[&str]| {
        let output = Command::new(tools.join("jcmd")).arg(pid.to_string()).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let file = recording();
    let profiler = profiler([pid], FREQUENCY);
    jcmd(&["JFR.start", "name=shares", "settings=profile"]);
    let end = Instant::now() + PROFILE;
    while Instant::now() < end {
        Command::new("kill").args(["-QUIT", &pid.to_string()]).status().unwrap();
        std::thread::sleep(DUMP);
    }
    let profile = profiler.take_profile().unwrap();
    jcmd(&["JFR.dump", "name=shares", &format!("filename={}", file.display())]);
    let recorded = recorded(&tools.join("jfr"), &file);
    let sampled = sampled(&profile, pid);
    let printed = printed(&program.dumps());
    for (tool, counts) in [("Flight Recorder", recorded), ("thread dumps", printed)] {
        let chance = chi_squared(&sampled, &counts);
        println!(
            "Java {}: {sampled:?} sampled, {counts:?} by {tool}: chi-squared {chance:.1}",
            machine.version
        );
        assert!(counts.iter().sum::<u64>() >= MIN_SAMPLES, "Java {}: few samples of {tool}", machine.version);
        assert!(
            chance < limit(FUNCTIONS.len()),
            "Java {}: {sampled:?}, but {counts:?} by {tool}",
            machine.version
        );
    }
}

/// `Shares.java`, which ends with this.
struct Program {
    child: Child,
    /// Reads the lines that the program prints after the first.
    reader: Option<JoinHandle<String>>,
}

impl Program {
    /// Starts the program and waits until it is compiled.
    fn start(machine: &Machine) -> Program {
        let mut command = Command::new(&machine.java);
        command.args(["-Xmx128m", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints", "-cp"]);
        command.arg(compile()).args(["Shares", "300"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let read = move || {
            let mut text = String::new();
            output.read_to_string(&mut text).unwrap();
            text
        };
        Program { child, reader: Some(std::thread::spawn(read)) }
    }

    /// Ends the program and returns its thread dumps.
    fn dumps(mut self) -> String {
        let reader = self.reader.take().unwrap();
        drop(self);
        reader.join().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn recording() -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shares.jfr");
    let _ = std::fs::remove_file(&file);
    file
}

/// Returns the samples of each function in a profile.
fn sampled(profile: &Profile, pid: u32) -> Counts {
    let mut counts = Counts::default();
    for sample in profile.samples().filter(|sample| sample.process().pid == pid) {
        let script = sample.trace().calls().filter(|call| call.kind() == Kind::Script).last();
        let name = script.map(|call| call.to_string()).unwrap_or_default();
        for _ in 0..sample.count() {
            add(&mut counts, name.strip_prefix("Shares."));
        }
    }
    counts
}

/// Returns the samples of each function in a recording.
fn recorded(jfr: &Path, file: &Path) -> Counts {
    let output =
        Command::new(jfr).args(["print", "--events", "jdk.ExecutionSample"]).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut counts = Counts::default();
    let mut lines = text.lines();
    // The leaf is in the line after the beginning of a stack.
    while lines.any(|line| line.contains("stackTrace = [")) {
        let leaf = lines.next().and_then(|line| line.trim().strip_prefix("Shares."));
        add(&mut counts, leaf.and_then(|leaf| leaf.split('(').next()));
    }
    counts
}

/// Returns the innermost functions of the main thread in thread dumps.
fn printed(dumps: &str) -> Counts {
    let mut counts = Counts::default();
    let mut lines = dumps.lines();
    while lines.any(|line| line.starts_with("\"main\"")) {
        let leaf = lines.find_map(|line| line.trim().strip_prefix("at "));
        add(&mut counts, leaf.and_then(|leaf| leaf.strip_prefix("Shares.")?.split('(').next()));
    }
    counts
}

fn add(counts: &mut Counts, function: Option<&str>) {
    if let Some(index) = FUNCTIONS.iter().position(|known| Some(*known) == function) {
        counts[index] += 1;
    }
}

#[test]
fn finds_leaves_in_thread_dumps() {
    let dump = "\"other\" #1\n\tat Shares.first(Shares.java:1)\n\n\"main\" #1 prio=5\n   java.lang.Thread.State: RUNNABLE\n\tat \
                Shares.third(Shares.java:20)\n\tat Shares.round(Shares.java:40)\n";
    assert_eq!(printed(&dump.repeat(2)), [0, 0, 2, 0]);
}
