//! The tested profiler: the `flamegraph` example, or another one.
//!
//! Everything that depends on how its command line and its last lines look stands here.

use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use live_suite::paths::example;

use crate::folded::{self, Stack};
use crate::perf;

/// The profiled processes.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Processes; the whole machine if there are none.
    pub(crate) pids: Vec<u32>,
    pub(crate) seconds: f64,
    pub(crate) frequency: u32,
    /// Path of the folded text.
    pub(crate) output: PathBuf,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) stacks: Vec<Stack>,
    /// The profiler's own report.
    pub(crate) summary: Option<Summary>,
}

/// The numbers of a line such as `1234 samples, 1230 whole (99.7 %), 0 lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) samples: u64,
    pub(crate) whole: u64,
    pub(crate) lost: u64,
}

/// A profiler at work.
pub(crate) struct Working {
    child: Child,
    order: Order,
    /// Ticks of two profilers would disturb each other.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

/// Profiles from beginning to end.
pub(crate) fn profile(order: &Order) -> Outcome {
    start(order).finish()
}

/// Starts to profile.
pub(crate) fn start(order: &Order) -> Working {
    let alone = alone();
    let mut command = if is_perf() { perf::command(order) } else { flamegraph(order) };
    let said = File::create(said_path(order)).expect("the output's directory is there");
    let child = command
        .stdin(Stdio::null())
        .stdout(said.try_clone().expect("a file can be written twice"))
        .stderr(said)
        .spawn()
        .expect("the profiler can't be run");
    Working { child, order: order.clone(), _alone: alone }
}

impl Working {
    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has opened what ticks, and a little longer: all that it starts with has to be
    /// ready.
    pub(crate) fn wait_until_it_samples(&self) {
        let limit = Instant::now() + Duration::from_secs(20);
        while !ticks(self.pid()) && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(700));
    }

    /// Ends the sampling before its time: all that is to be seen has run.
    pub(crate) fn finish_now(self) -> Outcome {
        // Ticks that are still on their way to the profiler.
        std::thread::sleep(Duration::from_millis(300));
        if !is_perf() {
            let signalled = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
            assert!(signalled.is_ok_and(|status| status.success()), "the profiler has ended too early");
        }
        self.finish()
    }

    /// Waits for its end.
    pub(crate) fn finish(self) -> Outcome {
        self.finish_watched(|| {})
    }

    /// Waits for its end and looks at it every few milliseconds.
    pub(crate) fn finish_watched(mut self, mut look: impl FnMut()) -> Outcome {
        let limit = Instant::now() + Duration::from_secs_f64(self.order.seconds * 2.0 + 60.0);
        let status = loop {
            look();
            assert!(Instant::now() < limit, "the profiler does not come to an end");
            match self.child.try_wait().expect("it was started") {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let said = std::fs::read(said_path(&self.order)).expect("it was created");
        let said = String::from_utf8_lossy(&said);
        assert!(status.success(), "the profiler failed: {said}");
        // Programs whose unwind data is right have none.
        assert!(!said.contains(" doubtful"), "{said}");
        let text = if is_perf() {
            perf::folded(&self.order)
        } else {
            std::fs::read_to_string(&self.order.output).expect("it has written its output")
        };
        let stacks = folded::parse(&text);
        assert!(stacks.is_ok(), "{stacks:?}");
        Outcome {
            stacks: stacks.unwrap_or_default(),
            summary: said.split(['\n', '\r']).rev().find_map(summary),
        }
    }
}

/// Held while one test profiles.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Working {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns `true` if another profiler is tested.
pub(crate) fn is_perf() -> bool {
    env::var_os("TRUTH_PROFILER").is_some_and(|profiler| profiler == "perf")
}

/// Returns `true` if a process has a running clock of the kernel.
fn ticks(pid: u32) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    names.into_iter().any(|name| name.to_string_lossy().contains("[perf_event]"))
}

/// Path of its output.
fn said_path(order: &Order) -> PathBuf {
    order.output.with_extension("said")
}

fn flamegraph(order: &Order) -> Command {
    let mut command = Command::new(binary());
    command.args(["--seconds", &order.seconds.to_string(), "--frequency", &order.frequency.to_string()]);
    for pid in &order.pids {
        command.args(["--pid", &pid.to_string()]);
    }
    command.arg("--output").arg(&order.output);
    command
}

/// The binary of this build, or the one that the environment names.
fn binary() -> PathBuf {
    let named = env::var_os("TRUTH_PROFILER").map(PathBuf::from);
    named.unwrap_or_else(|| example("flamegraph"))
}

/// Reads `1234 samples, 1230 whole (99.7 %), 0 lost`, wherever it stands in a line.
fn summary(line: &str) -> Option<Summary> {
    let before = |word: &str| -> Option<u64> {
        let front = &line[..line.find(word)?];
        let digits: String =
            front.trim_end().chars().rev().take_while(|&c| c.is_ascii_digit() || c == ',').collect();
        digits.chars().rev().filter(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    Some(Summary { samples: before("samples")?, whole: before("whole")?, lost: before("lost")? })
}

#[test]
fn the_last_line_is_understood() {
    let expected = Some(Summary { samples: 1234, whole: 1230, lost: 7 });
    assert_eq!(summary("1234 samples, 1230 whole (99.7 %), 7 lost"), expected);
    assert_eq!(summary("done: 1,234 samples, 1,230 whole (99.7 %), 7 lost"), expected);
    assert_eq!(summary("wrote x.folded"), None);
    assert_eq!(summary("many samples, 1 whole, 0 lost"), None);
}
