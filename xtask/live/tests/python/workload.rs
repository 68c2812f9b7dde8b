//! A running workload, and the chains that it prints.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Stack of one thread, as Python reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Frames, root first.
    pub(crate) frames: Vec<PythonFrame>,
}

/// One Python frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PythonFrame {
    pub(crate) line: u32,
    pub(crate) name: String,
    pub(crate) file: String,
}

/// A running workload; killed on drop.
pub(crate) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) chains: Vec<Chain>,
}

impl Running {
    /// Starts the command and waits until it has printed `chains` chains and is ready.
    pub(crate) fn start(mut command: Command, chains: usize) -> Running {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running { child, output, chains: Vec::new() };
        let mut is_ready = false;
        while !is_ready || running.chains.len() < chains {
            let line = running.line();
            let line = line.unwrap_or_else(|| panic!("{command:?} ended before it was ready"));
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["ready"] => is_ready = true,
                ["chain", pid, tid] => {
                    let chain = running.read_chain(pid.parse().unwrap(), tid.parse().unwrap());
                    running.chains.push(chain);
                }
                _ => panic!("{command:?}: {line}"),
            }
        }
        running
    }

    /// Sends a signal to the workload and all processes that it has forked.
    pub(crate) fn signal(&self, name: &str) {
        let group = format!("-{}", self.pid());
        let status = Command::new("kill").args(["-s", name, "--", &group]).stderr(Stdio::null()).status();
        assert!(status.is_ok(), "kill can't be run");
    }

    /// Raises the workload's priority, as far as the machine allows.
    pub(crate) fn hurry(&self) {
        let pid = self.pid().to_string();
        let status = Command::new("renice").args(["-n", "-20", "-p", &pid]).stdout(Stdio::null()).status();
        assert!(status.is_ok(), "renice can't be run");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the process ids of the workload and of all others that have printed a chain.
    pub(crate) fn pids(&self) -> BTreeSet<u32> {
        self.chains.iter().map(|chain| chain.pid).chain([self.pid()]).collect()
    }

    /// Returns the lines printed until the workload ends.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }

    fn read_chain(&mut self, pid: u32, tid: u32) -> Chain {
        let mut chain = Chain { pid, tid, frames: Vec::new() };
        while let Some(line) = self.line() {
            let ["frame", number, name, file] = line.split('\t').collect::<Vec<_>>()[..] else { break };
            let (name, file) = (name.to_owned(), file.to_owned());
            chain.frames.insert(0, PythonFrame { line: number.parse().unwrap(), name, file });
        }
        chain
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.output.read_line(&mut line).unwrap();
        (length > 0).then(|| line.trim_end_matches('\n').to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal("KILL");
        // Fails only if the process has been waited for already.
        let _ = self.child.wait();
    }
}
