//! Rubies, and programs that run under them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use live_suite::paths::fixtures;
use live_suite::root;

/// Options of all programs: no libraries, and no warnings that parts of the language are new.
const OPTIONS: [&str; 2] = ["--disable-gems", "-W0"];

/// A Ruby of `cargo xtask fixtures ruby`.
pub(crate) struct Ruby {
    /// Folder to use as root; `None` for the machine's own.
    root: Option<PathBuf>,
    program: PathBuf,
    /// Options that turn a compiler on.
    options: &'static [&'static str],
    /// Number of times that a chain is called before it spins.
    rounds: u32,
}

/// A frame of a backtrace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) line: u32,
    pub(crate) label: String,
    pub(crate) path: String,
}

/// A running program; killed on drop.
pub(crate) struct Running {
    child: Child,
    /// The process that spins, which is not the child if that forks.
    pid: u32,
    /// The backtrace of its chain, root first.
    pub(crate) backtrace: Vec<Location>,
}

impl Ruby {
    /// Returns the Ruby with this name, `None` if it isn't there.
    pub(crate) fn find(name: &str) -> Option<Ruby> {
        let folder = fixtures().join("ruby").join(name).canonicalize().ok()?;
        let list = std::fs::read_to_string(folder.join("complete")).ok()?;
        let [root, program, _] = list.lines().collect::<Vec<_>>()[..] else { return None };
        let is_root = !root.is_empty();
        let program = if is_root { program.into() } else { folder.join(program) };
        Some(Ruby { root: is_root.then_some(folder), program, options: &[], rounds: 0 })
    }

    /// Runs programs with these options, and chains this many times before they spin.
    pub(crate) fn with_compiler(self, options: &'static [&'static str], rounds: u32) -> Ruby {
        Ruby { options, rounds, ..self }
    }

    /// Returns a command that runs one of the programs.
    pub(crate) fn command(&self, program: &str) -> Command {
        self.seeing(&[], program)
    }

    /// Returns a command that runs one of the programs, which sees these folders.
    pub(crate) fn seeing(&self, folders: &[&Path], program: &str) -> Command {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ruby/programs");
        let mut command = self.bare(&[folders, &[&programs]].concat());
        command.arg(programs.join(program));
        command
    }

    /// Returns a command that runs another program in the root of a running one.
    pub(crate) fn beside(&self, running: &Running, program: &Path) -> Command {
        if self.root.is_none() {
            return Command::new(program);
        }
        let mut command = Command::new("nsenter");
        command.args(["--target", &running.pid.to_string(), "--mount", "--root"]).arg(program);
        command
    }

    /// Returns the path outside of the root of a file in it.
    pub(crate) fn outside(&self, path: &Path) -> PathBuf {
        let within = |root: &PathBuf| root.join(path.strip_prefix("/").unwrap_or(path));
        self.root.as_ref().map_or_else(|| path.to_owned(), within)
    }

    /// Returns a command that runs the interpreter, which sees these folders.
    pub(crate) fn bare(&self, folders: &[&Path]) -> Command {
        let mut command = root::command(self.root.as_ref(), folders, &self.program);
        command.args(self.options).args(OPTIONS);
        command
    }

    /// Starts a chain and waits until it spins.
    pub(crate) fn chain(&self, name: &str) -> Running {
        let mut command = self.command("chains.rb");
        command.env("ROUNDS", self.rounds.to_string()).args(name.split('+'));
        Running::start(command)
    }
}

impl Running {
    /// Starts a program and waits until it is ready; then it is stopped, because it would slow down
    /// the start of others.
    pub(crate) fn start(mut command: Command) -> Running {
        let command = command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut running = Running { pid: child.id(), child, backtrace: Vec::new() };
        for line in lines {
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["chain", pid] => running.pid = pid.parse().unwrap(),
                ["frame", line, label, path] => {
                    let (label, path) = (label.to_owned(), path.to_owned());
                    running.backtrace.insert(0, Location { line: line.parse().unwrap(), label, path });
                }
                ["ready"] => {
                    running.signal(libc::SIGSTOP);
                    return running;
                }
                _ => panic!("{command:?}: {line}"),
            }
        }
        panic!("{command:?} ended before it was ready");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the program run on.
    pub(crate) fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, number: i32) {
        let kill = Command::new("kill").args([format!("-{number}"), self.pid.to_string()]).status();
        assert!(kill.is_ok_and(|status| status.success()), "process {} has ended", self.pid);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if the process has ended.
        let _ = self.child.kill();
        if self.pid != self.child.id() {
            self.signal(libc::SIGKILL);
        }
        let _ = self.child.wait();
    }
}
