//! Folders, programs and processes of a test.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use live_suite::compile;
use live_suite::paths::example;

/// User id of nobody.
pub(crate) const NOBODY: u32 = 65534;

/// Source of a program that runs as usual.
pub(crate) const ORDINARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/ordinary.c");

/// Time after which a program counts as hanging.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

/// A folder of one test that everybody can write, as `/tmp` is; removed at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("hostile-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o1777)).unwrap();
        Scratch(path)
    }

    /// Returns a path as text.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Creates a symbolic link of nobody.
    pub(crate) fn link_of_nobody(&self, target: &str, name: &str) -> String {
        let path = self.path(name);
        std::os::unix::fs::symlink(target, &path).unwrap();
        lchown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        path
    }

    pub(crate) fn pipe(&self, name: &str) -> String {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// Compiles a C program.
    pub(crate) fn compile(&self, source: &Path, flags: &[&str]) -> PathBuf {
        let program = self.0.join("program");
        compile::gcc(source, &program, flags);
        program
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed when it is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Process {
        Process(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    /// Waits for the end of a program that prints little. A program that hangs fails the test.
    pub(crate) fn output(mut self) -> Output {
        let end = Instant::now() + HANGS;
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "the program hangs");
            std::thread::sleep(Duration::from_millis(20));
        }
        let read = |from: Option<&mut dyn std::io::Read>| {
            let mut bytes = Vec::new();
            from.map(|from| from.read_to_end(&mut bytes));
            bytes
        };
        let status = self.0.wait().unwrap();
        let stdout = read(self.0.stdout.as_mut().map(|out| out as &mut dyn std::io::Read));
        let stderr = read(self.0.stderr.as_mut().map(|out| out as &mut dyn std::io::Read));
        Output { status, stdout, stderr }
    }

    /// Returns the highest resident memory so far, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Output {
    Process::start(Command::new(example(program)).args(arguments)).output()
}

/// Returns the message of a program that failed with exit code 1.
pub(crate) fn error(output: &Output) -> String {
    assert_eq!(code(output.status), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.strip_prefix("error: "));
    line.unwrap_or_else(|| unreachable!("no message: {output:?}")).to_owned()
}

pub(crate) fn code(status: ExitStatus) -> Option<i32> {
    status.code()
}

/// Gives a file to nobody.
pub(crate) fn give_to_nobody(path: &str) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}
