//! A process with many functions, which describes each.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use benches::interpreter::Interpreter;

/// `programs/functions.py`, running until it is dropped.
pub(crate) struct Workload {
    child: Child,
    /// Functions of the standard library.
    pub(crate) library: Vec<Said>,
    /// Functions on the stack, each once.
    pub(crate) calls: Vec<Said>,
}

/// Description of a function by the process.
pub(crate) struct Said {
    pub(crate) address: u64,
    /// Two positions with their lines.
    pub(crate) places: [(u32, u32); 2],
    pub(crate) start_line: u32,
    pub(crate) name: String,
    pub(crate) file: String,
}

impl Workload {
    /// Starts it with a stack of slightly more than `depth` frames.
    pub(crate) fn start(interpreter: &Interpreter, depth: usize) -> io::Result<Workload> {
        let mut command = match interpreter.root.as_str() {
            "" => Command::new(&interpreter.program),
            root => {
                let mut command = Command::new("chroot");
                command.args([root, &interpreter.program]);
                command
            }
        };
        // Passed as text, because the file is missing in the interpreter's root.
        command.args(["-W", "ignore", "-c", SCRIPT]).arg(depth.to_string());
        command.env("PYTHONIOENCODING", "utf-8").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = child.stdout.take();
        let mut workload = Workload { child, library: Vec::new(), calls: Vec::new() };
        for line in BufReader::new(output.ok_or(io::ErrorKind::BrokenPipe)?).lines() {
            let line = line?;
            if line.is_empty() {
                let calls = workload.library.len().checked_sub(depth).ok_or(io::ErrorKind::InvalidData)?;
                workload.calls = workload.library.split_off(calls);
                return Ok(workload);
            }
            workload.library.push(Said::parse(&line).ok_or_else(|| io::Error::other(line))?);
        }
        Err(io::Error::other(format!("{} doesn't run the script", interpreter.name)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // The process may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    fn parse(line: &str) -> Option<Said> {
        let [address, places, start_line, name, file] =
            line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let place = |text: &str| {
            let (position, line) = text.split_once(':')?;
            Some((position.parse().ok()?, line.parse().ok()?))
        };
        let (first, last) = places.split_once(' ')?;
        Some(Said {
            address: address.parse().ok()?,
            places: [place(first)?, place(last)?],
            start_line: start_line.parse().ok()?,
            name: name.to_owned(),
            file: file.to_owned(),
        })
    }
}

const SCRIPT: &str = include_str!("../programs/functions.py");
