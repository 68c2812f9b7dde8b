//! The chains that a program prints, one for each of its processes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A frame as the virtual machine reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name of the function.
    pub name: String,
    /// Empty for a function without lines.
    pub file: String,
    /// Line that it runs.
    pub line: u32,
}

/// A running program with its chains.
pub struct Running {
    child: Child,
    /// Frames of each chain, root first, by the name of its case.
    pub chains: BTreeMap<String, Vec<Call>>,
    /// Kept open: a program whose output is closed ends.
    _output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a command and waits until it has printed its chains.
    pub fn start(mut command: Command) -> Running {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut chains: BTreeMap<String, Vec<Call>> = BTreeMap::new();
        let mut case = String::new();
        loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "{command:?} ended before it was ready");
            match line.trim_end_matches('\n').split('\t').collect::<Vec<_>>()[..] {
                ["case", name] => case = name.to_owned(),
                ["frame", name, file, line] => {
                    let (name, file) = (name.to_owned(), file.to_owned());
                    let call = Call { name, file, line: line.parse().unwrap() };
                    chains.entry(case.clone()).or_default().insert(0, call);
                }
                ["ready"] => break,
                // Warnings of the virtual machine.
                _ => {}
            }
        }
        Running { child, chains, _output: output }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
