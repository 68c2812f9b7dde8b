//! Running other programs.

use std::cell::RefCell;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::limit;

/// The result of a task; the error is a sentence.
pub(crate) type Outcome = Result<(), String>;

/// Returns a command that runs in the root of the repository.
pub(crate) fn command(line: &[&str]) -> Command {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).current_dir(root()).stdin(Stdio::null());
    limit::mark(&mut command);
    command
}

/// Runs a command; its output goes to the terminal.
pub(crate) fn run(command: &mut Command) -> Outcome {
    eprintln!("+ {}", shown(command));
    let status = command.status().map_err(|error| cannot(command, &error.to_string()))?;
    if status.success() { Ok(()) } else { Err(cannot(command, &status.to_string())) }
}

/// Runs a command and returns its output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| cannot(command, &error.to_string()))?;
    if !output.status.success() {
        return Err(cannot(command, &String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses JSON.
pub(crate) fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Runs a command; prints each line of its output and passes it to `see`.
pub(crate) fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Outcome {
    eprintln!("+ {}", shown(command));
    read(command, |line| {
        say(line);
        see(line);
    })
}

/// Prints a line to the standard output. A closed terminal doesn't stop the task.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Runs a command and passes each line of its output to `see`.
pub(crate) fn read(command: &mut Command, mut see: impl FnMut(&str)) -> Outcome {
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| cannot(command, &error.to_string()))?;
    let lines = child.stdout.take().map(lines);
    let status = follow(&mut child, lines, |line| {
        if let Some(test) = test_of(line) {
            TEST.set(Some(test.to_owned()));
        }
        see(line);
    });
    let status = status.map_err(|error| cannot(command, &error.to_string()))?;
    if status.success() { Ok(()) } else { Err(cannot(command, &status.to_string())) }
}

thread_local! {
    /// The test of the last line that names one.
    static TEST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns the test that the last line of a watched test runner names, as in `test chains::c`.
pub(crate) fn last_test() -> Option<String> {
    TEST.with_borrow(Clone::clone)
}

/// Forgets the tests of earlier steps.
pub(crate) fn forget_test() {
    TEST.set(None);
}

/// Returns the part of a test runner's line that names a test: `test chains::c` of `test chains::c
/// ... ok`.
fn test_of(line: &str) -> Option<&str> {
    line.split_once(" ... ").map(|(test, _)| test).filter(|test| test.starts_with("test "))
}

/// Time without a line after which an ended process counts as silent, and the longest wait for its
/// silence.
const SILENT_TIME: Duration = Duration::from_millis(300);
const MAX_SILENCE_WAIT: Duration = Duration::from_secs(10);

/// Passes lines on until the process has ended. Others that it started may keep its output open,
/// and are not waited for.
fn follow(
    child: &mut Child,
    lines: Option<Receiver<String>>,
    mut see: impl FnMut(&str),
) -> std::io::Result<ExitStatus> {
    let Some(lines) = lines else { return child.wait() };
    let mut end: Option<(ExitStatus, Instant)> = None;
    loop {
        match (lines.recv_timeout(SILENT_TIME), end) {
            (Ok(line), _) => see(&line),
            (Err(RecvTimeoutError::Disconnected), _) => return child.wait(),
            (Err(RecvTimeoutError::Timeout), Some((status, _))) => return Ok(status),
            (Err(RecvTimeoutError::Timeout), None) => {}
        }
        end = match end {
            None => child.try_wait()?.map(|status| (status, Instant::now() + MAX_SILENCE_WAIT)),
            Some((status, end)) if Instant::now() > end => return Ok(status),
            unchanged => unchanged,
        };
    }
}

/// Reads lines in a thread.
fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    lines
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns cargo's target directory.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the folder of fixtures: `fixtures` in the target directory.
///
/// With `XTASK_FIXTURES=FOLDER` it is created as a link to that folder, which several checkouts can
/// share.
pub(crate) fn fixtures() -> PathBuf {
    let here = target().join("fixtures");
    if let Some(shared) = env::var_os("XTASK_FIXTURES").map(PathBuf::from)
        && !here.exists()
    {
        // Without the link everything is rebuilt.
        let _ = fs::create_dir_all(target());
        let _ = fs::create_dir_all(&shared);
        let _ = symlink(shared, &here);
    }
    here
}

/// Returns a command of the cargo that runs this task.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    command(&[&[cargo.as_str()], arguments].concat())
}

pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let program = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    std::iter::once(program(&words[0])).chain(words[1..].iter().cloned()).collect::<Vec<_>>().join(" ")
}

fn cannot(command: &Command, why: &str) -> String {
    format!("{}: {}", shown(command), why.trim())
}
