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

/// The chain that a program prints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    /// Number of the process; 0 if it prints none.
    pub(crate) pid: u32,
    /// Frames, root first.
    pub(crate) calls: Vec<Call>,
}

impl Chain {
    /// Reads until the program is ready; `None` if it ends before.
    pub(crate) fn read(output: &mut impl BufRead) -> Option<Chain> {
        let mut chain = Chain::default();
        loop {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end_matches('\n').split('\t').collect::<Vec<_>>()[..] {
                ["frame", name, file, line] => chain.calls.push(Call {
                    name: name.to_owned(),
                    file: file.to_owned(),
                    line: line.parse().unwrap(),
                }),
                ["pid", pid] => chain.pid = pid.parse().unwrap(),
                ["ready"] => break,
                ["chain"] => chain.calls.clear(),
                // Warnings of the interpreter.
                _ => {}
            }
        }
        chain.calls.reverse();
        Some(chain)
    }
}

/// A process that is ended on drop.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running program.
pub(crate) struct Running {
    child: Process,
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
        let Some(Chain { calls: chain, .. }) = Chain::read(&mut output) else {
            panic!("{command:?} ended before it was ready")
        };
        Running { child: Process(child), chain, _output: output }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "no signal {name} for {}", self.pid());
    }
}
