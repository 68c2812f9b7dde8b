//! Time limits of steps: a step that exceeds its own is ended, with every process that it started.
//!
//! The processes of a step are recognized by a variable in their environment, which they pass on,
//! also to those that outlive their parents. Steps lie within one another:
//!
//! ```text
//! XTASK_STEPS=4711.3,4802.1      in step 1 of the task with pid 4802, which is in step 3 of the task with pid 4711
//! ```

use std::cell::RefCell;
use std::env;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The variable.
const VARIABLE: &str = "XTASK_STEPS";

/// Time between two attempts to end the processes of a step.
const KILL_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for the environment of a process that executes another program, and the time
/// between two looks at it.
const EXEC: Duration = Duration::from_secs(10);
const EXEC_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Time after which a process without an environment has none: the kernel sets its end last, and
/// may have other work before.
const EMPTY: Duration = Duration::from_millis(50);

thread_local! {
    /// Value of the variable for processes that this thread starts.
    static STEPS: RefCell<String> = RefCell::new(env::var(VARIABLE).unwrap_or_default());
}

/// Numbers the steps of this task.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// Result of work with a limit.
pub(crate) struct Limited<T> {
    /// Result of the work.
    pub(crate) result: T,
    /// `true` if its processes were ended because of the limit.
    pub(crate) is_exceeded: bool,
}

/// Does the work. Ends the processes that it started after `limit`, and those that it left behind
/// at its end.
pub(crate) fn limited<T>(limit: Duration, work: impl FnOnce() -> T) -> Limited<T> {
    let step = format!("{}.{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let outer = steps();
    STEPS.set(if outer.is_empty() { step.clone() } else { format!("{outer},{step}") });
    let (done, ended) = mpsc::channel();
    let name = step.clone();
    let guard = thread::spawn(move || guard(&name, limit, &ended));
    let result = work();
    drop(done);
    STEPS.set(outer);
    let is_exceeded = guard.join().unwrap_or(false);
    let left = end(&step);
    if !left.is_empty() {
        eprintln!("processes that were left behind, ended: {}", left.join(" "));
    }
    Limited { result, is_exceeded }
}

/// Returns the steps that this thread works for.
pub(crate) fn steps() -> String {
    STEPS.with_borrow(String::clone)
}

/// Lets this thread work for the steps of another.
pub(crate) fn enter(steps: String) {
    STEPS.set(steps);
}

/// Sets the variable for a process that the current step starts.
pub(crate) fn mark(command: &mut Command) {
    STEPS.with_borrow(|steps| {
        if !steps.is_empty() {
            command.env(VARIABLE, steps);
        }
    });
}

/// Waits for the end of a step, and after `limit` brings it about. Returns `true` if it had to.
fn guard(step: &str, limit: Duration, ended: &Receiver<()>) -> bool {
    if ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
        return false;
    }
    while ended.recv_timeout(KILL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        end(step);
    }
    true
}

/// Ends all processes of a step, and returns their names.
fn end(step: &str) -> Vec<String> {
    let found = processes(step);
    if found.is_empty() {
        return Vec::new();
    }
    // Built into the shell: the program `kill` is in a separate package.
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -s KILL \"$@\"", "sh"]).args(found.iter().map(|(pid, _)| pid.to_string()));
    // Fails if one of them has just ended.
    let _ = shell.stdin(Stdio::null()).stderr(Stdio::null()).status();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Processes of a step, with their names.
fn processes(step: &str) -> Vec<(u32, String)> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_of_step = |pid: &u32| environment(*pid).is_some_and(|environment| belongs(&environment, step));
    let name = |pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
    pids.filter(is_of_step).map(|pid| (pid, name(pid))).collect()
}

/// Returns the environment of a process; empty if it has none, or has ended and is still to be
/// waited for.
///
/// While a process executes another program, less than its environment can be read: the old one is
/// given back, and the new one is not there yet. It would be left behind if it counted as one
/// without the variable.
fn environment(pid: u32) -> Option<Vec<u8>> {
    let begin = Instant::now();
    loop {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        match length_of_environment(pid) {
            None => return Some(environment),
            Some(0) if begin.elapsed() < EMPTY => {}
            Some(length) if length == environment.len() as u64 || begin.elapsed() > EXEC => {
                return Some(environment);
            }
            Some(_) => {}
        }
        thread::sleep(EXEC_CHECK_INTERVAL);
    }
}

/// Returns the number of bytes that an environment has; `None` if the process has no memory,
/// `u64::MAX` if the environment's place is not known yet.
fn length_of_environment(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything. Behind it: field 3 of proc(5) and those that
    // follow.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (memory, begin, end) = (field(23)?, field(50)?, field(51)?);
    if memory == 0 {
        return None;
    }
    Some(if end == 0 { u64::MAX } else { end.saturating_sub(begin) })
}

/// Returns `true` if an environment, `NAME=VALUE` with a zero byte after each, names the step.
fn belongs(environment: &[u8], step: &str) -> bool {
    let prefix = format!("{VARIABLE}=");
    let mut values =
        environment.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(prefix.as_bytes()));
    values.any(|value| value.split(|byte| *byte == b',').any(|named| named == step.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{run, watch};

    #[test]
    fn finds_step_in_environment() {
        let environment = b"A=1\0XTASK_STEPS=47.3,48.1\0B=47.4\0";
        assert!(belongs(environment, "47.3") && belongs(environment, "48.1"));
        assert!(!belongs(environment, "47.4") && !belongs(environment, "8.1") && !belongs(b"", "1.1"));
    }

    #[test]
    fn ends_work_that_exceeds_its_limit_with_processes_that_lost_their_parents() {
        let begin = std::time::Instant::now();
        let done = limited(Duration::from_millis(300), || {
            watch(&mut crate::run::command(&["sh", "-c", "(sleep 97 &) ; sleep 98"]), |_| {})
        });
        assert!(done.is_exceeded && done.result.is_err());
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn finds_step_of_process_within_execve() {
        let mut empty = 0;
        for _ in 0..20 {
            let mut shell = Command::new("sh");
            shell.args(["-c", "exec sh -c 'exec sh -c \"exec sleep 95\"'"]).env(VARIABLE, "47.3");
            let mut shell = shell.spawn().unwrap();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(20) {
                empty += u32::from(fs::read(format!("/proc/{}/environ", shell.id())).unwrap().is_empty());
                let environment = environment(shell.id()).unwrap();
                assert!(belongs(&environment, "47.3"), "{} bytes", environment.len());
            }
            let _ = (shell.kill(), shell.wait());
        }
        eprintln!("{empty} times without an environment");
    }

    #[test]
    fn ends_what_is_left_behind() {
        let mut step = String::new();
        let done = limited(Duration::from_secs(60), || {
            step = STEPS.with_borrow(|steps| steps.rsplit(',').next().unwrap_or_default().to_owned());
            run(&mut crate::run::command(&["sh", "-c", "sleep 96 > /dev/null 2>&1 &"]))
        });
        assert!(!done.is_exceeded && done.result.is_ok());
        // A killed process is there until its memory is freed.
        for _ in 0..500 {
            if processes(&step).is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(processes(&step), []);
    }
}
