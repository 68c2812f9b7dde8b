//! A running program, and the chain that it prints.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A script frame as the language reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// Empty for an internal function.
    pub(crate) file: String,
    pub(crate) line: u32,
}

/// A running program; killed on drop.
pub(crate) struct Running {
    child: Child,
    /// Frames, root first.
    pub(crate) chain: Vec<Call>,
    /// Kept open: a program whose output is closed ends.
    _output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts the command and waits until it has printed its chain.
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut chain = Vec::new();
        loop {
            let mut line = String::new();
            let read = output.read_line(&mut line).unwrap();
            assert!(read > 0, "{command:?} ended before it was ready");
            match line.trim_end_matches('\n').split('\t').collect::<Vec<_>>()[..] {
                ["frame", name, file, line] => chain.push(Call {
                    name: name.to_owned(),
                    file: file.to_owned(),
                    line: line.parse().unwrap(),
                }),
                ["ready"] => break,
                ["chain"] => chain.clear(),
                // Warnings of the interpreter.
                _ => {}
            }
        }
        chain.reverse();
        Running { child, chain, _output: output }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "no signal {name} for {}", self.pid());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
