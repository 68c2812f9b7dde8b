//! Names, files and lines read from live interpreters, against their own reports.
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
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ebpf_profiler_core::language::{Attachment, Function, Language, Memory, Reason, Target};
use ebpf_profiler_hll::python::Python;
use interpreters::Interpreter;
use process::Process;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workload/chains.py");

/// A frame in output: name, file, line.
type Seen = (String, String, u32);

#[test]
#[ignore = "needs interpreters"]
fn chains_match_interpreter() {
    test_needs::root!();
    test_needs::programs!("python3");
    let interpreters = interpreters::all();
    assert!(!interpreters.is_empty(), "no interpreter found");
    let failed: Vec<_> = interpreters
        .iter()
        .filter(|python| !is_right(&python.name(), python.run(Path::new(SCRIPT))))
        .map(Interpreter::name)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Programs that link the interpreter statically and export none or one of its symbols.
#[test]
#[ignore = "needs interpreters with their static libraries, and gcc"]
fn chains_of_programs_that_embed_and_hide_interpreter() {
    test_needs::root!();
    test_needs::programs!("gcc", "python3");
    let interpreters = interpreters::all();
    let ways = ["-no-pie", "-static", "-Wl,--export-dynamic-symbol=_PyRuntime"];
    let build = |python| ways.map(|link| Host::build(python, link));
    let hosts: Vec<Host> = interpreters.iter().flat_map(build).flatten().collect();
    assert!(!hosts.is_empty(), "no static library found");
    let failed: Vec<_> = hosts.iter().filter(|host| !host.is_right()).map(|host| &host.program).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// A program that embeds an interpreter.
struct Host {
    program: PathBuf,
    home: String,
}

impl Host {
    fn build(python: &Interpreter, link: &str) -> Option<Host> {
        // Before 3.8 extension modules load a second interpreter.
        let script = "import sys, sysconfig as s; sys.version_info >= (3, 8) or sys.exit(); v = s.get_config_var; print('\\n'.join([sys.prefix, \
                   s.get_paths()['include'], v('LIBPL') + '/' + v('LIBRARY'), v('LIBS') + ' ' + v('SYSLIBS')]))";
        if python.root.is_some() {
            return None;
        }
        let output = Command::new(&python.program).args(["-c", script]).output().ok()?;
        let output = String::from_utf8(output.stdout).ok()?;
        let [home, headers, library, libraries] = output.lines().collect::<Vec<_>>()[..] else { return None };
        if !Path::new(library).exists() || !Path::new(headers).join("Python.h").exists() {
            return None;
        }
        static BUILT: AtomicU32 = AtomicU32::new(0);
        let number = BUILT.fetch_add(1, Ordering::Relaxed);
        let name = Path::new(library).file_stem()?.to_string_lossy();
        let link_name = link.replace(|c: char| !c.is_alphanumeric(), "-");
        let program =
            std::env::temp_dir().join(format!("host-{}-{number}-{name}{link_name}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workload/host.c");
        let mut command = Command::new("gcc");
        command.args(["-O2", link, "-I", headers, source, library]).args(libraries.split_whitespace());
        let built =
            command.args(["-lz", "-lexpat", "-o"]).arg(&program).stderr(Stdio::null()).status().unwrap();
        built.success().then(|| Host { program, home: home.to_owned() })
    }

    fn is_right(&self) -> bool {
        let mut command = Command::new(&self.program);
        command.arg(SCRIPT).env("PYTHONHOME", &self.home);
        is_right(&self.program.display().to_string(), command)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.program);
    }
}

/// A thread that runs a script in a second interpreter.
#[test]
#[ignore = "needs interpreters"]
fn chain_of_thread_is_that_of_interpreter_in_use() {
    test_needs::root!();
    test_needs::programs!("python3");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workload/interpreters.py");
    let interpreters = interpreters::all();
    let (mut tried, mut failed) = (0, Vec::new());
    for python in &interpreters {
        let (child, threads) = start(python.run(&script), 1);
        // Not all versions support a second interpreter.
        if !threads.is_empty() {
            tried += 1;
            if !matches_report(&python.name(), &child, &threads) {
                failed.push(python.name());
            }
        }
    }
    assert!(tried > 0 && failed.is_empty(), "{failed:?} of {tried}");
}

fn is_right(name: &str, command: Command) -> bool {
    let (child, threads) = start(command, 2);
    threads.len() == 2 && matches_report(name, &child, &threads)
}

/// Returns `true` if the chains of all threads match their reports within 5 s.
fn matches_report(name: &str, child: &Running, threads: &[(u64, Vec<Seen>)]) -> bool {
    let process = Process::open(child.0.id());
    let memory: &dyn Memory = &|address, buffer: &mut [u8]| process.read(address, buffer);
    let mut attachment = match attach(&process, memory) {
        Ok(attachment) => attachment,
        Err(reason) => {
            eprintln!("{name}: {reason:?}");
            return false;
        }
    };
    let right = threads.iter().all(|(thread, expected)| {
        let mut found = Vec::new();
        // After its report the thread proceeds to the reported line.
        for _ in 0..1000 {
            found = chain(&mut attachment, *thread, memory);
            if found == *expected {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        show(name, expected, &found);
        false
    });
    let frames: usize = threads.iter().map(|(_, chain)| chain.len()).sum();
    eprintln!("{name}: {} threads, {frames} frames: {right}", threads.len());
    right
}

fn show(name: &str, expected: &[Seen], found: &[Seen]) {
    eprintln!("{name}: {} of {} frames", found.len(), expected.len());
    let differs = expected.iter().zip(found).position(|(expected, found)| expected != found);
    let from = differs.unwrap_or(0).saturating_sub(1);
    for index in from..from + 4 {
        eprintln!("  reported {:?}\n  found    {:?}", expected.get(index), found.get(index));
    }
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
    for call in walk::calls(attachment.walker(), thread, memory).unwrap_or_default() {
        let function = attachment.names().function(call.function, call.check, memory);
        let function = function.unwrap_or_else(|reason| Function::new(reason.text()));
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

/// Starts a workload, and returns the first `count` reports of its threads.
fn start(mut command: Command, count: usize) -> (Running, Vec<(u64, Vec<Seen>)>) {
    let mut child = command
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let child = Running(child);
    let threads: Vec<_> = output.lines().take(count).map(|line| parse(&line.unwrap())).collect();
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
