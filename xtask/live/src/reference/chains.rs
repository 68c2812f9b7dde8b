//! The chains that a program prints, one for each of its processes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};

use super::chain::Call;
use crate::process::Process;

/// A running program with its chains.
pub struct Running {
    child: Process,
    /// Frames of each chain, root first, by the name of its case.
    pub chains: BTreeMap<String, Vec<Call>>,
    /// Kept open: a program whose output is closed ends.
    _output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a command and waits until it has printed its chains.
    pub fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Process::start(&mut command);
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
