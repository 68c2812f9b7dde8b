//! A running program.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A truth program that is in its chain; killed on drop.
pub(crate) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts the program and waits until it prints that it is ready.
    pub(crate) fn start(program: &Path, arguments: &[String]) -> Running {
        let mut child = Command::new(program)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| fail(program, &error.to_string()));
        let output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut running = Running { child, output };
        let mut line = String::new();
        let read = running.output.read_line(&mut line);
        assert!(
            read.is_ok() && line.ends_with("ready\n"),
            "{} did not get ready: {line:?}",
            program.display()
        );
        running
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end and returns the output since the program was ready.
    pub(crate) fn finish(mut self) -> String {
        let mut rest = String::new();
        let read = self.output.read_to_string(&mut rest);
        let status = self.child.wait();
        assert!(read.is_ok() && status.is_ok_and(|status| status.success()), "it failed: {rest}");
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::panic, reason = "a test that can't start its program has failed")]
fn fail(program: &Path, error: &str) -> ! {
    panic!("{}: {error}", program.display())
}
