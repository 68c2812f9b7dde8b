//! Names, files and lines of living interpreters, against what they say themselves.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test")]

#[path = "live/interpreters.rs"]
mod interpreters;
#[path = "live/process.rs"]
mod process;
#[path = "live/walk.rs"]
mod walk;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ebpf_profiler_core::language::{Attachment, Function, Language, Memory, Reason, Target};
use ebpf_profiler_hll::python::Python;
use interpreters::Interpreter;
use process::Process;

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

fn is_right(python: &Interpreter) -> bool {
    let (child, threads) = start(python);
    let pid = child.0.id();
    let process = Process::open(pid);
    let memory: &dyn Memory = &|address, buffer: &mut [u8]| process.read(address, buffer);
    let mut attachment = match attach(&process, memory) {
        Ok(attachment) => attachment,
        Err(reason) => {
            eprintln!("{}: {reason:?}", python.name());
            return false;
        }
    };
    let mut right = true;
    for (thread, expected) in &threads {
        let found = chain(&mut attachment, *thread, memory);
        let differs = expected.iter().zip(&found).position(|(expected, found)| expected != found);
        if expected.len() != found.len() || differs.is_some() {
            eprintln!("{}: {} of {} frames", python.name(), found.len(), expected.len());
            let from = differs.unwrap_or(0).saturating_sub(1);
            for index in from..(from + 4) {
                eprintln!("  said  {:?}\n  found {:?}", expected.get(index), found.get(index));
            }
            eprintln!("{:?}", attachment.interpreter);
            right = false;
        }
    }
    let frames: usize = threads.iter().map(|(_, chain)| chain.len()).sum();
    eprintln!("{}: {} threads, {frames} frames: {right}", python.name(), threads.len());
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
fn start(python: &Interpreter) -> (Running, Vec<(u64, Vec<Seen>)>) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workload/chains.py");
    let mut child = python
        .run(Path::new(script))
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let child = Running(child);
    let threads = output.lines().take(2).map(|line| parse(&line.unwrap())).collect();
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
