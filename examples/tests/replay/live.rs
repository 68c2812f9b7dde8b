//! The profile of a workload, taken live and from its recording.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Health;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::folded;

/// Who may nothing.
const NOBODY: u32 = 65_534;

/// A folder that everybody may write to, gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let path = std::env::temp_dir().join(format!("replay-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Scratch(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that goes on until the test ends.
struct Workload(Child);

impl Workload {
    /// A script: the profiler looks into its process before the first tick.
    fn script() -> Workload {
        let script = "while True: sum(i for i in range(1000))";
        // Who replays may read this one, wherever else there is another.
        Workload(Command::new("/usr/bin/python3").args(["-c", script]).spawn().unwrap())
    }

    /// One that goes on starting others.
    fn starts_others() -> Workload {
        // None of them waits for a disk.
        let script =
            "while :; do awk 'BEGIN { for (i = 0; i < 1000000; i++) x += i }'; ls -lR /proc/self; done";
        Workload(Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The live profile as text, and how the profiler did.
fn profile(workloads: &[Workload], recording: &Path) -> (String, Health) {
    let text = Arc::new(Mutex::new(Vec::new()));
    let sink = text.clone();
    let builder = Profiler::builder().deadline(std::time::Duration::from_secs(120));
    let profiler = workloads
        .iter()
        .fold(builder, |builder, workload| builder.pid(workload.0.id()))
        .frequency(499)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .sink(move |profile: &Profile| Ok(folded::write(profile, &mut *sink.lock().unwrap())?))
        .record(recording)
        .start()
        .unwrap();
    std::thread::sleep(Duration::from_secs(5));
    let health = profiler.stop().unwrap();
    let text = text.lock().unwrap().clone();
    (String::from_utf8(text).unwrap(), health)
}

/// What the example program makes of the recording, as a user who may nothing.
fn replay(scratch: &Scratch, recording: &Path) -> String {
    // Nobody may not look into the folder where it was built.
    let (program, output) = (scratch.file("replay"), scratch.file("replayed.folded"));
    fs::copy(env!("CARGO_BIN_EXE_replay"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(recording, fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = Command::new(&program);
    command.arg(recording).arg("--output").arg(&output).current_dir("/").uid(NOBODY).gid(NOBODY);
    assert!(command.status().unwrap().success());
    fs::read_to_string(output).unwrap()
}

fn count(text: &str) -> u64 {
    text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

#[test]
#[ignore = "profiles: needs root"]
fn a_replay_without_privileges_equals_the_live_profile() {
    test_needs::root!();
    test_needs::programs!("python3");
    let scratch = Scratch::new();
    let recording = scratch.file("run.ticks");
    let workloads = [Workload::script(), Workload::starts_others()];
    // Long enough for the script to run.
    std::thread::sleep(Duration::from_secs(1));
    let (live, health) = profile(&workloads, &recording);
    let recorded = health.recording.unwrap();
    assert_eq!((recorded.error, recorded.left_out), (None, 0));

    let replayed = replay(&scratch, &recording);
    let (samples, raw) = (health.pipeline.samples, health.pipeline.raw);
    println!("{samples} samples, {raw} walked in user space, {} bytes recorded", recorded.bytes);
    assert!(samples > 20 && raw > 0, "a workload that says little");
    assert_eq!(count(&live), samples);
    assert!(live.contains("_[k]"));
    assert!(live.lines().any(|line| line.starts_with("python3;") && line.contains(";<module>;")), "{live}");
    assert_eq!(differences(&live, &replayed), Vec::<String>::new());
}

/// The lines that only one of them has.
fn differences(live: &str, replayed: &str) -> Vec<String> {
    let only = |mark, these: &str, those: &str| {
        let those: Vec<&str> = those.lines().collect();
        let missing = these.lines().filter(|line| !those.contains(line));
        missing.map(|line| format!("{mark} {line}")).collect::<Vec<_>>()
    };
    [only("live", live, replayed), only("replayed", replayed, live)].concat()
}
