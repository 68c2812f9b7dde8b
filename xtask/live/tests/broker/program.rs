//! Programs of nobody, and a profiler beside them.

use live_suite::compile;
use live_suite::paths::example;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// User id of nobody.
const NOBODY: u32 = 65534;

/// Time after which a program counts as hanging.
const HANGS: Duration = Duration::from_secs(60);

/// A folder that is removed at its end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("broker-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Compiles `owned.c` to a file that only nobody may read.
    pub(crate) fn owned(&self) -> String {
        let path = self.path("owned");
        let flags = ["-O1", "-fno-optimize-sibling-calls"];
        compile::gcc(&compile::tests().join("broker/owned.c"), Path::new(&path), &flags);
        self.give(&path, 0o700);
        path
    }

    /// Writes a script that only nobody may read.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        self.give(&path, 0o600);
        path
    }

    /// Copies a program to a file that everybody may read.
    pub(crate) fn readable(&self, program: &str) -> String {
        let path = self.path("readable");
        fs::copy(program, &path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn give(&self, path: &str, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed when it is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Starts a program as nobody, and waits until it prints a line.
    pub(crate) fn of_nobody(program: &str, arguments: &[&str]) -> Process {
        let mut command = Command::new(program);
        command.args(arguments).uid(NOBODY).gid(NOBODY).stdout(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(process.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        process
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = fs::remove_file(format!("/tmp/perf-{}.map", self.0.id()));
    }
}

/// Returns the path of a program; that of the distribution if there is one, which the user nobody may execute.
pub(crate) fn installed(name: &str) -> String {
    let own = PathBuf::from(format!("/usr/bin/{name}"));
    let path = if own.exists() { own } else { test_needs::find(name).unwrap() };
    path.to_str().unwrap().to_owned()
}

/// A program that profiles the machine and writes a flame graph.
pub(crate) struct Profiler {
    process: Child,
    begun: Instant,
    folder: PathBuf,
    name: &'static str,
}

impl Profiler {
    /// Starts it with these options, in the words of `before` if there are any.
    pub(crate) fn start(
        scratch: &Scratch,
        name: &'static str,
        before: &[&str],
        options: &[&str],
    ) -> Profiler {
        let flamegraph = example("flamegraph");
        let words = [before, &[flamegraph.to_str().unwrap(), "--frequency", "199", "--output"]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(scratch.path(&format!("{name}.folded"))).args(options);
        let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Profiler { process, begun: Instant::now(), folder: scratch.0.clone(), name }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the process of the broker.
    pub(crate) fn broker(&self) -> u32 {
        let path = format!("/proc/{0}/task/{0}/children", self.id());
        let end = Instant::now() + HANGS;
        while Instant::now() < end {
            let children = fs::read_to_string(&path).unwrap();
            if let Some(broker) = children.split_ascii_whitespace().find_map(|child| child.parse().ok()) {
                return broker;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("there is no broker");
    }

    /// Waits for its end. Returns what it printed, and the time from its start.
    pub(crate) fn end(mut self) -> (Folded, String, Duration) {
        while self.process.try_wait().unwrap().is_none() {
            if self.begun.elapsed() > HANGS {
                let _ = self.process.kill();
                panic!("the profiler hangs");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = self.begun.elapsed();
        let output = self.process.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = [output.stdout, output.stderr].concat();
        (Folded::read(&self.folder, self.name), String::from_utf8_lossy(&said).into(), took)
    }
}

/// The lines of a flame graph.
pub(crate) struct Folded(pub(crate) String);

impl Folded {
    /// Reads the file of a profile; with several kinds of samples, those of all kinds.
    fn read(folder: &Path, name: &str) -> Folded {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let is_its = |file: &fs::DirEntry| {
            let file = file.file_name().into_string().unwrap();
            file.starts_with(name) && file.ends_with(".folded")
        };
        Folded(files.filter(is_its).map(|file| fs::read_to_string(file.path()).unwrap()).collect())
    }

    /// Returns the share of samples of a program that have this chain of functions, and their number.
    pub(crate) fn share(&self, program: &str, chain: &str) -> (f64, u64) {
        let (mut all, mut named) = (0, 0);
        for line in self.0.lines().filter(|line| line.starts_with(&format!("{program};"))) {
            let Some((stack, count)) = line.rsplit_once(' ') else { continue };
            let count: u64 = count.parse().unwrap();
            all += count;
            named += if has_chain(stack, chain) { count } else { 0 };
        }
        (named as f64 / all.max(1) as f64, all)
    }
}

/// Returns `true` if a stack has functions of these names in this order. A name may be the beginning of one.
fn has_chain(stack: &str, chain: &str) -> bool {
    let mut frames = stack.split(';');
    chain.split(';').all(|name| frames.any(|frame| frame.starts_with(name)))
}

/// The privileges of a thread.
#[derive(Debug)]
pub(crate) struct Status {
    /// Inheritable, permitted, effective, bounding and ambient capabilities.
    pub(crate) capabilities: [u64; 5],
    pub(crate) no_new_privileges: bool,
    pub(crate) is_confined: bool,
    pub(crate) name: String,
}

impl Status {
    /// Returns those of all threads of a process.
    pub(crate) fn of_threads(pid: u32) -> Vec<Status> {
        let folder = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let texts = folder.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
        texts.map(|text| Status::parse(&text)).collect()
    }

    fn parse(text: &str) -> Status {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        let sets = ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"];
        Status {
            capabilities: sets.map(|set| u64::from_str_radix(field(set), 16).unwrap()),
            no_new_privileges: field("NoNewPrivs:") == "1",
            is_confined: field("Seccomp:") == "2",
            name: field("Name:").to_owned(),
        }
    }
}
