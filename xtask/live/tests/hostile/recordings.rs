//! Recordings that end early, and their access.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::scratch::{Process, Scratch, error, run};
use live_suite::paths::example;

#[test]
#[ignore = "needs root"]
fn a_recording_is_private_from_its_first_byte() {
    test_needs::root!();
    let scratch = Scratch::new("private");
    let path = scratch.path("run.ticks");
    fs::write(&path, "old, and readable by all").unwrap();
    let old = fs::File::open(&path).unwrap();
    let mut command = Command::new(example("record"));
    // SAFETY: the call is safe between fork and exec.
    unsafe { command.pre_exec(|| Ok(_ = libc::umask(0o022))) };
    let recorder = Process::start(command.args(["--seconds", "2", "--output", &path]));
    let end = Instant::now() + Duration::from_secs(10);
    while fs::metadata(&path).unwrap().ino() == old.metadata().unwrap().ino() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert!(recorder.output().status.success());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::io::read_to_string(old).unwrap(), "old, and readable by all");
    assert!(run("replay", &[&path]).status.success());
}

#[test]
#[ignore = "needs root"]
fn a_recording_of_a_killed_program_is_replayed() {
    test_needs::root!();
    let scratch = Scratch::new("killed");
    let path = scratch.path("run.ticks");
    let recorder =
        Process::start(Command::new(example("record")).args(["--seconds", "60", "--output", &path]));
    let _busy = Process::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    let end = Instant::now() + Duration::from_secs(30);
    while fs::metadata(&path).map_or(0, |metadata| metadata.len()) < 256 << 10 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(3));
    recorder.signal("KILL");
    drop(recorder);
    replays_incomplete(&path);
}

#[test]
#[ignore = "needs root"]
fn a_recording_on_a_full_disk_is_replayed() {
    test_needs::root!();
    let scratch = Scratch::new("full");
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs", &disk]).status();
    assert!(mount.unwrap().success());
    let path = format!("{disk}/run.ticks");
    let _busy = Process::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    let output = run("record", &["--seconds", "5", "--frequency", "997", "--output", &path]);
    let result = std::panic::catch_unwind(|| {
        let message = error(&output);
        assert!(message.contains("cannot be written: No space left"), "{message}");
        assert!(message.contains("missing from the recording"), "{message}");
        replays_incomplete(&path);
    });
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    result.unwrap();
}

/// Checks that a replay has samples, names what is missing, and ends with exit code 1.
fn replays_incomplete(path: &str) {
    let output = run("replay", &[path]);
    let message = error(&output);
    assert!(message.contains("is incomplete: it is truncated after"), "{message}");
    let text = String::from_utf8_lossy(&output.stdout);
    let samples = text.lines().find_map(|line| line.split_once(" samples in ")).unwrap().0;
    assert!(samples.replace(',', "").parse::<u64>().unwrap() > 0, "{text}");
}
