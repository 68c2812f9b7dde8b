//! The program `agent`, and the summary that it prints at the end.

use std::fmt;
use std::process::{Child, Command, Stdio};

/// The command that starts an agent.
pub(crate) struct Agent(Command);

/// A running agent.
pub(crate) struct Running(Option<Child>);

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
        Agent::by(Command::new(env!("CARGO_BIN_EXE_agent")), endpoint)
    }

    /// Starts the agent through another command, for example `setpriv`.
    pub(crate) fn by(mut command: Command, endpoint: &str) -> Agent {
        command.args(["--endpoint", endpoint, "--frequency", "97"]);
        Agent(command)
    }

    pub(crate) fn with(mut self, options: &[&str]) -> Agent {
        self.0.args(options);
        self
    }

    pub(crate) fn start(mut self) -> Running {
        Running(Some(self.0.stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// Runs the agent to its end.
    pub(crate) fn run(self) -> Account {
        self.start().wait()
    }
}

impl Running {
    /// Sends SIGTERM, as service managers do, and waits.
    pub(crate) fn end(self) -> Account {
        let pid = self.0.as_ref().map(Child::id).unwrap();
        assert!(Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap().success());
        self.wait()
    }

    fn wait(mut self) -> Account {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        Account::of(String::from_utf8(output.stderr).unwrap())
    }
}

/// A failed test leaves no process behind.
impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
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
