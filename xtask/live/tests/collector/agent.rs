//! The program `agent`, and the summary that it prints at the end.

use live_suite::paths::example;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

/// The command that starts an agent.
pub(crate) struct Agent(Command);

/// A running agent.
pub(crate) struct Running {
    child: Child,
    errors: BufReader<ChildStderr>,
    said: String,
}

/// The numbers of the agent's last line.
pub(crate) struct Account {
    pub(crate) delivered: u64,
    pub(crate) queued: u64,
    pub(crate) on_disk: u64,
    pub(crate) dropped: u64,
    pub(crate) retries: u64,
    /// The complete output.
    pub(crate) said: String,
}

impl Agent {
    pub(crate) fn new(endpoint: &str) -> Agent {
        Agent::by(Command::new(example("agent")), endpoint)
    }

    /// Starts the agent through another command, for example `setpriv`.
    pub(crate) fn by(mut command: Command, endpoint: &str) -> Agent {
        // What the tests compare is of single processes.
        command.args(["--endpoint", endpoint, "--frequency", "97", "--privacy", "processes"]);
        Agent(command)
    }

    pub(crate) fn with(mut self, options: &[&str]) -> Agent {
        self.0.args(options);
        self
    }

    pub(crate) fn start(mut self) -> Running {
        let mut child = self.0.stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        Running { child, errors, said: String::new() }
    }

    /// Runs the agent to its end.
    pub(crate) fn run(self) -> Account {
        self.start().wait()
    }
}

impl Running {
    /// Waits until it samples.
    pub(crate) fn wait_for_samples(&mut self) {
        while !self.said.contains(" and sends to ") {
            assert_ne!(self.errors.read_line(&mut self.said).unwrap(), 0, "it ended: {}", self.said);
        }
    }

    /// Sends SIGTERM, as service managers do, and waits.
    pub(crate) fn end(self) -> Account {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.wait()
    }

    fn wait(mut self) -> Account {
        self.errors.read_to_string(&mut self.said).unwrap();
        self.child.wait().unwrap();
        Account::of(std::mem::take(&mut self.said))
    }
}

/// A failed test leaves no process behind.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Account {
    fn of(said: String) -> Account {
        let line = said.lines().rev().find(|line| line.contains(" delivered, ")).unwrap_or_default();
        let number = |what: &str| {
            let (before, _) = line.split_once(&format!(" {what}"))?;
            before.rsplit([' ', '(']).next()?.parse().ok()
        };
        let number = |what| number(what).unwrap_or_else(|| panic!("no {what}: {said}"));
        Account {
            delivered: number("delivered"),
            queued: number("queued"),
            on_disk: number("on disk"),
            dropped: number("dropped"),
            retries: number("retries"),
            said,
        }
    }
}

/// Prints the agent's last line.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.said.trim_end())
    }
}
