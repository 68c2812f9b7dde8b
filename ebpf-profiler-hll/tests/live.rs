//! Names, files and lines of living interpreters, against what they say themselves.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test")]

#[path = "live/interpreters.rs"]
mod interpreters;
#[path = "live/process.rs"]
mod process;
#[path = "live/walk.rs"]
mod walk;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ebpf_profiler_core::language::{Attachment, Function, Language, Memory, Reason, Target};
use ebpf_profiler_hll::python::Python;
use interpreters::Interpreter;
use process::Process;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workload/chains.py");

/// A frame as people see it.
type Seen = (String, String, u32);

#[test]
#[ignore = "needs interpreters"]
fn every_chain_is_as_the_interpreter_says() {
    let interpreters = interpreters::all();
    assert!(!interpreters.is_empty(), "no interpreter here");
    let failed: Vec<_> =
        interpreters.iter().filter(|python| !is_right(python)).map(Interpreter::name).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Programs that have the interpreter linked into them and export none of its names.
#[test]
#[ignore = "needs interpreters with their static libraries, and gcc"]
fn programs_that_embed_it_and_hide_it() {
    let interpreters = interpreters::all();
    let hosts: Vec<Host> = interpreters.iter().filter_map(Host::build).collect();
    assert!(!hosts.is_empty(), "no static library here");
    let failed: Vec<_> = hosts.iter().filter(|host| !host.is_right()).map(|host| &host.program).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// A program with an interpreter in it.
struct Host {
    program: PathBuf,
    home: String,
}

impl Host {
    fn build(python: &Interpreter) -> Option<Host> {
        // Before 3.8 the modules of C bring a second interpreter along.
        let ask = "import sys, sysconfig as s; sys.version_info >= (3, 8) or sys.exit(); v = s.get_config_var; print('\\n'.join([sys.prefix, \
                   s.get_paths()['include'], v('LIBPL') + '/' + v('LIBRARY'), v('LIBS') + ' ' + v('SYSLIBS')]))";
        if python.root.is_some() {
            return None;
        }
        let answer = Command::new(&python.program).args(["-c", ask]).output().ok()?;
        let answer = String::from_utf8(answer.stdout).ok()?;
        let [home, headers, library, libraries] = answer.lines().collect::<Vec<_>>()[..] else { return None };
        if !Path::new(library).exists() || !Path::new(headers).join("Python.h").exists() {
            return None;
        }
        let name = Path::new(library).file_stem()?.to_string_lossy().into_owned();
        let program = std::env::temp_dir().join(format!("host-{}-{name}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workload/host.c");
        let mut command = Command::new("gcc");
        command.args(["-O2", "-no-pie", "-I", headers, source, library]).args(libraries.split_whitespace());
        let built =
            command.args(["-lz", "-lexpat", "-o"]).arg(&program).stderr(Stdio::null()).status().unwrap();
        built.success().then(|| Host { program, home: home.to_owned() })
    }

    fn is_right(&self) -> bool {
        let mut command = Command::new(&self.program);
        command.arg(SCRIPT).env("PYTHONHOME", &self.home);
        is_as_said(&self.program.display().to_string(), command)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.program);
    }
}

fn is_right(python: &Interpreter) -> bool {
    is_as_said(&python.name(), python.run(Path::new(SCRIPT)))
}

fn is_as_said(name: &str, command: Command) -> bool {
    let (child, threads) = start(command);
    let pid = child.0.id();
    let process = Process::open(pid);
    let memory: &dyn Memory = &|address, buffer: &mut [u8]| process.read(address, buffer);
    let mut attachment = match attach(&process, memory) {
        Ok(attachment) => attachment,
        Err(reason) => {
            eprintln!("{}: {reason:?}", name);
            return false;
        }
    };
    let mut right = true;
    for (thread, expected) in &threads {
        let found = chain(&mut attachment, *thread, memory);
        let differs = expected.iter().zip(&found).position(|(expected, found)| expected != found);
        if expected.len() != found.len() || differs.is_some() {
            eprintln!("{}: {} of {} frames", name, found.len(), expected.len());
            let from = differs.unwrap_or(0).saturating_sub(1);
            for index in from..(from + 4) {
                eprintln!("  said  {:?}\n  found {:?}", expected.get(index), found.get(index));
            }
            eprintln!("{:?}", attachment.interpreter);
            right = false;
        }
    }
    let frames: usize = threads.iter().map(|(_, chain)| chain.len()).sum();
    eprintln!("{}: {} threads, {frames} frames: {right}", name, threads.len());
    right
}

fn attach(process: &Process, memory: &dyn Memory) -> Result<Attachment, Reason> {
    for file in &process.files {
        let Some(runtime) = Python.find(&file.open().unwrap()) else { continue };
        assert!(!runtime.loops().is_empty());
        return runtime.attach(&Target::new(memory, file.bias, process.files.clone()));
    }
    panic!("no runtime found");
}

fn chain(attachment: &mut Attachment, thread: u64, memory: &dyn Memory) -> Vec<Seen> {
    let mut seen = Vec::new();
    for call in walk::calls(&attachment.interpreter, thread, memory).unwrap_or_default() {
        let function = attachment.names.function(call.function, call.check, memory);
        let function =
            function.unwrap_or_else(|reason| Function { name: reason.text().into(), ..Function::default() });
        if !function.name.is_empty() {
            seen.push((
                function.name.to_string(),
                function.file.to_string(),
                function.lines.at(call.position),
            ));
        }
    }
    seen
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the workload; its threads, and what each says of itself.
fn start(mut command: Command) -> (Running, Vec<(u64, Vec<Seen>)>) {
    let mut child = command
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let child = Running(child);
    let threads: Vec<_> = output.lines().take(2).map(|line| parse(&line.unwrap())).collect();
    assert_eq!(threads.len(), 2, "the workload doesn't run");
    until_waiting(child.0.id());
    (child, threads)
}

fn parse(line: &str) -> (u64, Vec<Seen>) {
    let (thread, frames) = line.split_once('\t').unwrap();
    let cells: Vec<&str> = frames.split('\t').collect();
    let frames = cells.chunks_exact(3).map(|frame| {
        let name = match frame[0].len() {
            0..=4096 => frame[0].to_string(),
            _ => format!("{}…", &frame[0][..4096]),
        };
        (name, frame[1].to_string(), frame[2].parse().unwrap())
    });
    (thread.parse().unwrap(), frames.collect())
}

/// Waits until all threads of a process sleep.
fn until_waiting(pid: u32) {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let stats = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap());
        if stats.into_iter().all(|stat| stat.rsplit(')').next().unwrap().starts_with(" S")) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("process {pid} doesn't come to rest");
}
