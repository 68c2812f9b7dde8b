//! A script of bpftrace.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running script. Needs tracefs.
pub(crate) struct Bpftrace {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Bpftrace {
    /// Starts a script, and waits until its probes are attached.
    pub(crate) fn start(script: &str) -> Bpftrace {
        let script = format!("BEGIN {{ printf(\"ready\\n\"); }} {script}");
        let started = (0..ATTEMPTS).find_map(|_| Bpftrace::attach(&script));
        started.expect("bpftrace attaches no probes")
    }

    /// Starts a script once; `None` if it is not ready in time.
    fn attach(script: &str) -> Option<Bpftrace> {
        let mut child = Command::new("bpftrace").args(["-e", script]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut bpftrace = Bpftrace { child, lines };
        let mut line = String::new();
        while line.trim_end() != "ready" {
            line.clear();
            if !bpftrace.has_output(START) {
                println!("bpftrace is not ready after {START} ms");
                return None;
            }
            assert_ne!(bpftrace.lines.read_line(&mut line).unwrap(), 0, "bpftrace ended");
        }
        Some(bpftrace)
    }

    /// Ends the script and returns the values of its maps, by name and number: `@name[7]: 42`.
    pub(crate) fn finish(mut self) -> BTreeMap<(String, u32), u64> {
        // A script was seen that did not end for ten minutes.
        let has_ended = (0..ATTEMPTS).any(|_| self.interrupt());
        assert!(has_ended, "bpftrace does not end");
        let lines = self.lines.by_ref().lines().map(Result::unwrap);
        let values = lines.filter_map(|line| {
            let (name, rest) = line.strip_prefix('@')?.split_once('[')?;
            let (key, value) = rest.split_once("]: ")?;
            Some(((name.to_owned(), key.parse().ok()?), value.parse().ok()?))
        });
        values.collect()
    }

    /// Interrupts the script. Returns `true` once it prints its maps, or has ended.
    fn interrupt(&mut self) -> bool {
        // SAFETY: the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) }, 0);
        self.has_output(END)
    }

    /// Returns `true` if it prints something or ends within a number of milliseconds.
    fn has_output(&self, timeout: i32) -> bool {
        let fd = self.lines.get_ref().as_raw_fd();
        let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: the call reads and writes one `pollfd`.
        !self.lines.buffer().is_empty() || unsafe { libc::poll(&raw mut polled, 1, timeout) } > 0
    }
}

/// Number of times that a script is started, and interrupted.
const ATTEMPTS: u32 = 6;

/// Time in which a script is ready, in milliseconds.
const START: i32 = 60_000;

/// Interval between two interrupts in milliseconds. Printing the maps takes less: a signal meanwhile
/// would end it.
const END: i32 = 10_000;

impl Drop for Bpftrace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
