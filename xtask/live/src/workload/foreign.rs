//! Programs that were not written for these tests, profiled from their start to their end.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::{Call, Kind, Sample};
use ebpf_profiler_core::trace::Stop;

use crate::process::Process;
use crate::sampled::profiler;

/// Sampling frequency per CPU, in Hz.
const FREQUENCY: u32 = 499;

/// Time between two profiles of a running program.
const INTERVAL: Duration = Duration::from_millis(200);

/// Programs that become the profiled one.
const BEFORE: &[&str] = &["sh", "unshare"];

/// Number of different faults that are printed.
const PRINTED: usize = 10;

/// Least number of samples of a part.
const MIN_SAMPLES: u64 = 50;

/// Names of the parts of a run: its first samples, those that follow, and the last ones. Memory of
/// a process that ends cannot be read, so the last part has no limits.
pub const PARTS: [&str; 3] = ["start", "run", "end"];

/// A program that waits for a line before it begins.
pub struct Program(Process);

/// Stacks and frames of a part.
#[derive(Debug, Default)]
pub struct Shares {
    /// Samples of the program.
    pub samples: u64,
    /// Samples whose stacks begin at the root.
    pub whole: u64,
    /// Frames of all samples.
    pub frames: u64,
    /// Frames of a runtime's code without a name.
    pub unnamed: u64,
    /// Faults, with samples and a stack.
    faults: BTreeMap<String, (u64, String)>,
}

impl Program {
    /// Starts a program, which waits for [`run`](Self::run).
    pub fn start(command: &Command) -> Program {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "read line; exec \"$@\"", "sh"])
            .arg(command.get_program())
            .args(command.get_args());
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Program(Process::start(&mut shell))
    }

    /// Runs the program to its end. `add` gets each sample and the number of its part; those of the
    /// first `first` are of part 0.
    pub fn run(mut self, first: u64, mut add: impl FnMut(usize, &Sample<'_>)) {
        let pid = self.0.id();
        let profiler = self.profiler();
        writeln!(self.0.stdin.take().unwrap()).unwrap();
        let mut samples = 0;
        loop {
            std::thread::sleep(INTERVAL);
            let is_over = self.0.try_wait().unwrap().is_some();
            let profile = profiler.take_profile().unwrap();
            let ended = self.0.try_wait().unwrap().is_some();
            let part = if ended { 2 } else { usize::from(samples >= first) };
            let own = |sample: &Sample<'_>| sample.process().pid == pid && !is_before(sample);
            for sample in profile.samples().filter(own) {
                samples += sample.count();
                add(part, &sample);
            }
            if is_over {
                return;
            }
        }
    }

    fn profiler(&self) -> Profiler {
        profiler([self.0.id()], FREQUENCY)
    }
}

/// Returns `true` for a sample without a stack of the program: it is about to be executed.
fn is_before(sample: &Sample<'_>) -> bool {
    matches!(sample.trace().stop(), Stop::Exec | Stop::NoUserStack)
        || BEFORE.contains(&&*sample.thread().name)
}

impl Shares {
    /// Adds a stack. Returns `true` if it is whole: frames left out of a deep one don't matter.
    pub fn add(&mut self, calls: &[Call<'_>], count: u64) -> bool {
        self.samples += count;
        self.frames += count * calls.len() as u64;
        for (index, _) in calls.iter().enumerate().filter(|(_, call)| is_unnamed(call)) {
            self.unnamed += count;
            let around = &calls[index.saturating_sub(2)..(index + 2).min(calls.len())];
            self.fault(format!("unnamed: {}", text(around)), count, || text(calls));
        }
        let Some(Call::Truncated(stop)) = calls.first() else {
            self.whole += count;
            return true;
        };
        let outermost = &calls[1..calls.len().min(4)];
        self.fault(format!("{stop}: {}", text(outermost)), count, || text(calls));
        false
    }

    /// Counts a fault, with the first stack that has it.
    pub fn fault(&mut self, fault: String, count: u64, stack: impl Fn() -> String) {
        self.faults.entry(fault).or_insert_with(|| (0, stack())).0 += count;
    }

    /// Returns `true` if there are enough samples, at least `whole` of 1,000 stacks are whole, and
    /// at most `unnamed` of 1,000 frames are unnamed.
    pub fn are_within(&self, [whole, unnamed]: [u64; 2]) -> bool {
        self.samples >= MIN_SAMPLES
            && self.whole * 1000 >= self.samples * whole
            && self.unnamed * 1000 <= self.frames * unnamed
    }
}

/// As people read it.
impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shares { samples, whole, frames, unnamed, faults } = self;
        write!(f, "{whole} of {samples} stacks whole, {unnamed} of {frames} frames unnamed")?;
        let mut faults: Vec<_> = faults.iter().collect();
        faults.sort_by_key(|(_, (count, _))| Reverse(*count));
        for (fault, (count, stack)) in faults.into_iter().take(PRINTED) {
            write!(f, "\n  {count:5} {fault}\n        {stack}")?;
        }
        Ok(())
    }
}

/// Returns frames as text.
pub fn text(calls: &[Call<'_>]) -> String {
    calls.iter().map(ToString::to_string).collect::<Vec<_>>().join(";")
}

/// Returns `true` for a frame of a runtime's code without a name.
fn is_unnamed(call: &Call<'_>) -> bool {
    let Call::Function { frame, .. } = call else { return false };
    call.kind() == Kind::RunTime || frame.script().is_some_and(|script| script.is_unnamed)
}
