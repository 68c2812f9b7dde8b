//! Runs a program until it is ready, and takes a core file of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::paths::scratch;
use crate::process::Process;

/// A core file; deleted on drop.
pub struct Dump {
    /// Path of the core file.
    pub core: PathBuf,
    /// Executable of the dumped process.
    pub program: PathBuf,
}

impl Drop for Dump {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.core);
    }
}

/// Returns `true` if all programs are installed. In CI a missing one is an error.
pub fn are_here(programs: &[&str]) -> bool {
    let missing: Vec<_> = programs.iter().filter(|program| test_needs::find(program).is_none()).collect();
    if !missing.is_empty() {
        test_needs::skip(&format!("not installed: {missing:?}"));
    }
    missing.is_empty()
}

/// Returns the folder in which the tests build and dump.
pub fn folder() -> PathBuf {
    let folder = scratch().join("core_files");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the source path of a program.
pub fn source(name: &str) -> String {
    format!("{}/tests/core_files/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs a compiler.
pub fn build(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| unreachable!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Dumps a program that prints a line when it is ready.
pub fn when_ready(name: &str, command: &mut Command) -> Dump {
    let mut running = start(command.stdout(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready", "{command:?}");
    take(name, &running, Duration::from_millis(200))
}

/// Dumps a program after a delay.
pub fn after(name: &str, while_: Duration, command: &mut Command) -> Dump {
    let running = start(command.stdout(Stdio::null()));
    take(name, &running, while_)
}

/// Makes the kernel dump a program that prints a line when it is ready; `None` if `core_pattern`
/// names another place.
///
/// Such a dump has headers for all memory, but not the contents of file mappings.
pub fn by_the_kernel(name: &str, program: &Path) -> Option<Dump> {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if pattern.starts_with(['|', '/']) {
        test_needs::skip(&format!("the kernel's dumps go to {}", pattern.trim()));
        return None;
    }
    let place = folder().join(name);
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -c unlimited; exec \"$0\""]).arg(program).current_dir(&place);
    let mut running = start(shell.stdout(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    build(Command::new("kill").args(["-ABRT", &running.0.id().to_string()]));
    running.0.wait().unwrap();
    let core = fs::read_dir(&place).unwrap().next().expect("no core file written").unwrap().path();
    Some(Dump { core, program: program.to_owned() })
}

fn start(command: &mut Command) -> Process {
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    Process(child.unwrap_or_else(|error| unreachable!("{command:?}: {error}; is it installed?")))
}

fn take(name: &str, running: &Process, wait: Duration) -> Dump {
    thread::sleep(wait);
    let (pid, prefix) = (running.0.id(), folder().join(name));
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    build(Command::new("gcore").arg("-o").arg(&prefix).arg(pid.to_string()));
    Dump { core: format!("{}.{pid}", prefix.display()).into(), program }
}
