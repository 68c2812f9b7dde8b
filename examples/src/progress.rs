//! Progress on a terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

/// A line on standard error that is overwritten. Without a terminal there is no output.
///
/// The line is removed when the value is dropped.
#[derive(Debug)]
pub struct Progress {
    is_shown: bool,
}

impl Progress {
    /// Returns a progress line, which is empty at first.
    #[expect(clippy::new_without_default, reason = "it depends on the terminal")]
    pub fn new() -> Progress {
        Progress { is_shown: io::stderr().is_terminal() }
    }

    /// Replaces the line.
    pub fn show(&self, line: impl Display) {
        self.write(format_args!("\r\x1b[K{line}"));
    }

    fn write(&self, text: impl Display) {
        if self.is_shown {
            let mut out = io::stderr().lock();
            // A terminal that is gone shows no progress.
            let _ = write!(out, "{text}").and_then(|()| out.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.write("\r\x1b[K");
    }
}
