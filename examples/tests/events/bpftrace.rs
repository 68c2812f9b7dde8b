//! A script of bpftrace.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
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
        let mut bpftrace = Command::new("bpftrace");
        // By default a pipe may get the first line at the end.
        let mut child = bpftrace.args(["-B", "line", "-e", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line.trim_end() != "ready" {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "bpftrace ended");
        }
        Bpftrace { child, lines }
    }

    /// Ends the script and returns the values of its maps, by name and number: `@name[7]: 42`.
    pub(crate) fn finish(mut self) -> BTreeMap<(String, u32), u64> {
        // SAFETY: the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) }, 0);
        let lines = self.lines.by_ref().lines().map(Result::unwrap);
        let values = lines.filter_map(|line| {
            let (name, rest) = line.strip_prefix('@')?.split_once('[')?;
            let (key, value) = rest.split_once("]: ")?;
            Some(((name.to_owned(), key.parse().ok()?), value.parse().ok()?))
        });
        values.collect()
    }
}

impl Drop for Bpftrace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
