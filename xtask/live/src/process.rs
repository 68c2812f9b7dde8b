//! Child processes that end with their test.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};

/// A child process; killed on drop.
#[derive(Debug)]
pub struct Process(pub Child);

impl Process {
    /// Starts a command.
    ///
    /// # Panics
    ///
    /// If the program can't be executed.
    pub fn start(command: &mut Command) -> Process {
        Process(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "no signal {name} for {}", self.id());
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    /// Both fail only if the process has been waited for.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
