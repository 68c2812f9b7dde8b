//! Sampled stacks, in the terms of the comparison.

mod profile;

use std::fmt;

use ebpf_profiler_core::profile::{Call, FrameView, Profile, Sample};
use ebpf_profiler_core::trace::Frame;

pub use profile::{FREQUENCY, profile, profiler};

/// One distinct stack of a process.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    /// The process.
    pub pid: u32,
    /// Name of the thread.
    thread: String,
    /// Frames, root first, without those of the kernel.
    pub frames: Vec<Seen>,
    /// Reason for which the root side is missing, or omitted frames.
    pub cut: Option<String>,
    /// Samples with this stack.
    pub count: u64,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Its symbol; empty if there is none.
    Native(String),
    /// A function of a script.
    Script {
        /// Name of the function.
        name: String,
        /// Path of its file; empty if there is none.
        file: String,
        /// Line that it runs; 0 if unknown.
        line: u32,
        /// The name stands for an unknown one.
        is_unnamed: bool,
    },
}

/// Returns all stacks of a profile.
pub fn stacks(profile: &Profile) -> Vec<Stack> {
    stacks_of(profile, |_| true)
}

/// Returns the stacks of some samples of a profile.
pub fn stacks_of(profile: &Profile, is_wanted: impl Fn(&Sample<'_>) -> bool) -> Vec<Stack> {
    let samples = profile.samples().filter(is_wanted).map(|sample| {
        let (pid, thread) = (sample.process().pid, sample.thread().name.to_string());
        let mut stack = Stack { pid, thread, count: sample.count(), ..Stack::default() };
        sample.trace().calls().for_each(|call| stack.add(call));
        stack
    });
    samples.collect()
}

impl Stack {
    /// Returns `true` for a stack of this process, and of the thread with this name.
    pub fn is_of(&self, pid: u32, thread: Option<&str>) -> bool {
        self.pid == pid && thread.is_none_or(|thread| self.thread == thread)
    }

    fn add(&mut self, call: Call<'_>) {
        match call {
            Call::LeftOut(count) => self.cut = Some(format!("{count} frames left out")),
            Call::Truncated(stop) => self.cut = Some(stop.to_string()),
            // Inlined functions share the frame of their caller.
            Call::Function { depth: 1.., .. } => {}
            Call::Function { frame, .. } if matches!(frame.frame(), Frame::Kernel { .. }) => {}
            Call::Function { frame, .. } => self.frames.push(Seen::new(frame)),
            _ => {}
        }
    }
}

impl Seen {
    fn new(frame: FrameView<'_>) -> Seen {
        let symbol = frame.symbols().last();
        match frame.script() {
            Some(script) => Seen::Script {
                name: script.name.to_string(),
                file: script.file.to_string(),
                line: symbol.map_or(0, |symbol| symbol.line),
                is_unnamed: script.is_unnamed,
            },
            None => Seen::Native(symbol.map_or_else(String::new, |symbol| symbol.function.to_string())),
        }
    }
}

/// As people read it.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Native(name) if name.is_empty() => f.write_str("?"),
            Seen::Native(name) => f.write_str(name),
            Seen::Script { name, file, line, .. } => {
                write!(f, "{name}({}:{line})", file.rsplit('/').next().unwrap_or_default())
            }
        }
    }
}
