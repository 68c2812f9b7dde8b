//! Programs that work in steps.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::paths::scratch;

/// A program that prints `ready`, and works, up to a word that it prints, for each line that it
/// reads.
pub struct Running {
    /// The process.
    pub child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a program, and waits for its line `ready`, which is the first one.
    pub fn start(command: &mut Command) -> Running {
        let (running, before) = Running::start_after(command);
        assert!(before.is_empty(), "{before:?}");
        running
    }

    /// Starts a program, and waits for its line `ready`. Also returns the lines before it.
    pub fn start_after(command: &mut Command) -> (Running, Vec<String>) {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let (mut running, mut before) = (Running { child, lines }, Vec::new());
        loop {
            match running.line() {
                line if line == "ready" => return (running, before),
                line => before.push(line),
            }
        }
    }

    /// Lets it work up to a word; the last one is `end`.
    pub fn step(&mut self, word: &str) {
        self.go();
        assert_eq!(self.line(), word);
    }

    /// Lets it work.
    pub fn go(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }

    /// Returns the next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the program ended");
        line.trim_end().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A failed test may have left it at work.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds a program or library of `programs` for the tests named `tests`.
pub fn build(tests: &str, compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let folder = scratch().join("events").join(tests);
    fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/events/programs").join(source);
    let path = folder.join(name);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-g", "-fno-optimize-sibling-calls", "-o"]).arg(&path).arg(source).args(flags);
    assert!(command.status().unwrap().success());
    path
}
