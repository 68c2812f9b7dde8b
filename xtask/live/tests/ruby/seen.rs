//! Sampled stacks, in the terms of the comparison.

use std::fmt;

use ebpf_profiler_core::profile::{Call, FrameView, Profile};
use ebpf_profiler_core::trace::Frame;

/// One distinct stack of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    pub(crate) pid: u32,
    /// Frames, root first, without those of the kernel.
    pub(crate) frames: Vec<Seen>,
    /// Reason for which frames are missing; `None` if it is whole.
    pub(crate) broken: Option<String>,
    pub(crate) count: u64,
    /// Sample times, in nanoseconds since 1970.
    pub(crate) times: Vec<u64>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Native { name: String, address: u64 },
    Ruby { name: String, file: String, line: u32, is_unnamed: bool },
}

/// Returns all stacks of a profile.
pub(crate) fn stacks(profile: &Profile) -> Vec<Stack> {
    let stack = |sample: ebpf_profiler_core::profile::Sample<'_>| {
        let (pid, times) = (sample.process().pid, sample.timestamps().to_vec());
        let mut stack = Stack { pid, times, count: sample.count(), ..Stack::default() };
        for call in sample.trace().calls() {
            stack.add(call);
        }
        stack
    };
    profile.samples().map(stack).collect()
}

impl Stack {
    fn add(&mut self, call: Call<'_>) {
        match call {
            Call::LeftOut(count) => self.broken = Some(format!("{count} frames left out")),
            Call::Truncated(stop) => self.broken = Some(stop.to_string()),
            // Inlined functions share the frame of their caller.
            Call::Function { depth: 1.., .. } => {}
            Call::Function { frame, .. } if matches!(frame.frame(), Frame::Kernel { .. }) => {}
            Call::Function { frame, .. } => self.frames.push(Seen::new(frame)),
            _ => {}
        }
    }

    /// Returns `true` if a function that MJIT compiled is among the native frames.
    pub(crate) fn has_code_of_mjit(&self) -> bool {
        let is_compiled =
            |seen: &Seen| matches!(seen, Seen::Native { name, .. } if name.starts_with("_mjit"));
        self.frames.iter().any(is_compiled)
    }

    /// Returns the Ruby frames.
    pub(crate) fn ruby(&self) -> impl Iterator<Item = &Seen> {
        self.frames.iter().filter(|seen| matches!(seen, Seen::Ruby { .. }))
    }
}

impl Seen {
    fn new(frame: FrameView<'_>) -> Seen {
        let symbol = frame.symbols().last();
        let name = symbol.map(|symbol| symbol.function.to_string()).unwrap_or_default();
        if let Some(script) = frame.script() {
            return Seen::Ruby {
                name: script.name.to_string(),
                file: script.file.to_string(),
                line: symbol.map_or(0, |symbol| symbol.line),
                is_unnamed: script.is_unnamed,
            };
        }
        match frame.frame() {
            Frame::Native { address, .. } | Frame::Anonymous { address, .. } => {
                Seen::Native { name, address }
            }
            _ => Seen::Native { name, address: 0 },
        }
    }
}

/// As people read it.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Native { name, address } if name.is_empty() => write!(f, "+{address:#x}"),
            Seen::Native { name, .. } => f.write_str(name),
            Seen::Ruby { name, file, line, .. } => {
                write!(f, "{name}({}:{line})", file.rsplit('/').next().unwrap_or_default())
            }
        }
    }
}
