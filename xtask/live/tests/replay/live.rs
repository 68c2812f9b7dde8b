//! Profile of a workload, taken live and from its recording.

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
use live_suite::paths::example;

/// User without privileges.
const NOBODY: u32 = 65_534;

/// A folder that every user may write to; deleted on drop.
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

/// A program that runs until the test ends.
struct Workload(Child);

impl Workload {
    /// Starts a script: the profiler reads its process before the first sample.
    fn script() -> Workload {
        let script = "while True: sum(i for i in range(1000))";
        // The replay, without privileges, can read this one; other installations may be unreadable.
        Workload(Command::new("/usr/bin/python3").args(["-c", script]).spawn().unwrap())
    }

    /// Starts a program that keeps starting others.
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

/// Returns the live profile as text, and the profiler's counters.
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

/// Replays the recording with the example program as a user without privileges.
fn replay(scratch: &Scratch, recording: &Path) -> String {
    // That user may not read the build folder.
    let (program, output) = (scratch.file("replay"), scratch.file("replayed.folded"));
    fs::copy(example("replay"), &program).unwrap();
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
    // The script has to run first.
    std::thread::sleep(Duration::from_secs(1));
    let (live, health) = profile(&workloads, &recording);
    let recorded = health.recording.unwrap();
    assert_eq!((recorded.error, recorded.left_out), (None, 0));

    let replayed = replay(&scratch, &recording);
    let (samples, raw) = (health.pipeline.samples, health.pipeline.raw);
    println!("{samples} samples, {raw} walked in user space, {} bytes recorded", recorded.bytes);
    assert!(samples > 20 && raw > 0, "too few samples or no raw ones: {samples}, {raw}");
    assert_eq!(count(&live), samples);
    assert!(live.contains("_[k]"));
    assert!(live.lines().any(|line| line.starts_with("python3;") && line.contains(";<module>;")), "{live}");
    assert_eq!(differences(&live, &replayed), Vec::<String>::new());
}

/// Returns the lines that are in only one of both.
fn differences(live: &str, replayed: &str) -> Vec<String> {
    let only = |mark, these: &str, those: &str| {
        let those: Vec<&str> = those.lines().collect();
        let missing = these.lines().filter(|line| !those.contains(line));
        missing.map(|line| format!("{mark} {line}")).collect::<Vec<_>>()
    };
    [only("live", live, replayed), only("replayed", replayed, live)].concat()
}
