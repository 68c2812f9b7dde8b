//! A running program, and the chain that it prints.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};

use crate::process::Process;

/// A script frame as the language reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Name of the function.
    pub name: String,
    /// Empty for an internal function.
    pub file: String,
    /// Line that it runs.
    pub line: u32,
}

/// The chain that a program prints.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Number of the process; 0 if it prints none.
    pub pid: u32,
    /// Frames, root first.
    pub calls: Vec<Call>,
}

impl Chain {
    /// Reads until the program is ready; `None` if it ends before.
    pub fn read(output: &mut impl BufRead) -> Option<Chain> {
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

/// A running program.
pub struct Running {
    child: Process,
    /// Frames, root first.
    pub chain: Vec<Call>,
    /// Kept open: a program whose output is closed ends.
    _output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts the command and waits until it has printed its chain.
    pub fn start(mut command: Command) -> Running {
        let mut child = Process::start(command.stdin(Stdio::null()).stdout(Stdio::piped()));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let Some(Chain { calls: chain, .. }) = Chain::read(&mut output) else {
            panic!("{command:?} ended before it was ready")
        };
        Running { child, chain, _output: output }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        self.child.signal(name);
    }
}
