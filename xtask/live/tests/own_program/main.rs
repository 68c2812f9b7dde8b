//! The example with aya: its eBPF program takes samples at `write` calls.
//!
//! Needs root: `cargo build --package examples`, then
//! `cargo test -p live-suite --test own_program -- --ignored`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::ffi::CString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use live_suite::compile;
use live_suite::paths::example;

/// Number of calls of the program; the N-th writes N bytes.
const CALLS: u64 = 2_000;

#[test]
#[ignore = "profiles: needs root"]
fn program_loaded_by_aya_samples_each_write_with_its_bytes() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own_program");
    std::fs::create_dir_all(&folder).unwrap();
    let mut writer = Command::new(build(&folder)).stdin(Stdio::piped()).spawn().unwrap();
    let file_system = FileSystem::mount(folder.join("bpf"));
    let mut example = Command::new(example("own_program"))
        .args(["--seconds", "300", "--pid", &writer.id().to_string(), "--pins"])
        .arg(file_system.0.join("pins"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(example.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "attached\n");
    assert!(!file_system.0.join("pins").exists());

    let mut input = writer.stdin.take().unwrap();
    input.write_all(b"\n").unwrap();
    while !is_waiting(writer.id()) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: the call has no other conditions; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(example.id() as i32, libc::SIGINT) }, 0);
    let mut folded = String::new();
    example.stdout.take().unwrap().read_to_string(&mut folded).unwrap();
    line.clear();
    said.read_to_string(&mut line).unwrap();
    assert!(example.wait().unwrap().success(), "{line}");
    drop(input);
    assert!(writer.wait().unwrap().success());

    let all = (1..=CALLS).sum::<u64>();
    assert_eq!(line, format!("{CALLS} calls, {all} bytes, 0 lost\n"), "{folded}");
    let (odd, even) = ((1..=CALLS).step_by(2).sum(), (2..=CALLS).step_by(2).sum());
    assert_eq!([bytes(&folded, "odd"), bytes(&folded, "even")], [odd, even], "{folded}");
}

/// Returns the sum of the stacks in which `main` calls `function`, which writes.
fn bytes(folded: &str, function: &str) -> u64 {
    let stacks = folded.lines().map(|line| line.rsplit_once(' ').unwrap());
    let is_wanted = |stack: &str| {
        // Native frames above the program's are the kernel's.
        let user: Vec<&str> = stack.split(';').filter(|frame| !frame.ends_with("_[k]")).collect();
        user.first() == Some(&"writer")
            && matches!(user[..], [.., "main", caller, "put", leaf] if caller == function && leaf.contains("write"))
    };
    stacks.filter(|(stack, _)| is_wanted(stack)).map(|(_, bytes)| bytes.parse::<u64>().unwrap()).sum()
}

/// Returns `true` if the process has done its calls: it sleeps in its last read.
fn is_waiting(pid: u32) -> bool {
    let of = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    of("syscall").starts_with("0 ") && of("io").contains(&format!("syscw: {CALLS}\n"))
}

fn build(folder: &Path) -> PathBuf {
    let program = folder.join("writer");
    compile::gcc(&compile::tests().join("own_program/writer.c"), &program, &["-O2", "-g"]);
    program
}

/// A BPF file system of the test: not every machine has one mounted.
struct FileSystem(PathBuf);

impl FileSystem {
    fn mount(folder: PathBuf) -> FileSystem {
        std::fs::create_dir_all(&folder).unwrap();
        let mounted = FileSystem(folder);
        let path = mounted.path();
        let kind = c"bpf".as_ptr();
        // SAFETY: all strings end with 0 and outlive the call.
        let result = unsafe { libc::mount(kind, path.as_ptr(), kind, 0, std::ptr::null()) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        mounted
    }

    fn path(&self) -> CString {
        CString::new(self.0.as_os_str().as_bytes()).unwrap()
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        // SAFETY: the string ends with 0 and outlives the call.
        unsafe { libc::umount2(self.path().as_ptr(), libc::MNT_DETACH) };
    }
}
