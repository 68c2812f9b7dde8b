//! Sampled stacks, in the terms of the comparison.

use ebpf_profiler_core::profile::{Call, FrameView, Profile};
use ebpf_profiler_core::trace::Frame;

/// One distinct stack of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Frames, root first, without those of the kernel.
    pub(crate) frames: Vec<Seen>,
    /// Number of omitted frames, and the index of the frame after them.
    pub(crate) gap: Option<(usize, usize)>,
    /// Reason for which the root side is missing; `None` if it is complete.
    pub(crate) truncated: Option<String>,
    /// Functions of the kernel, root first.
    pub(crate) kernel: Vec<String>,
    pub(crate) count: u64,
    /// Sample times, in nanoseconds since 1970.
    pub(crate) times: Vec<u64>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Native {
        /// Physical function of the frame; inlined ones are left out.
        name: Option<String>,
        file: String,
        address: u64,
    },
    Python {
        name: String,
        file: String,
        line: u32,
        /// Line of its definition.
        start_line: u32,
        /// `true` if the name is a placeholder that states why there is none.
        is_unnamed: bool,
    },
    /// Code outside of all files.
    Nowhere { address: u64 },
}

/// Returns all stacks of a profile.
pub(crate) fn stacks(profile: &Profile) -> Vec<Stack> {
    profile
        .samples()
        .map(|sample| {
            let mut stack = Stack {
                pid: sample.process().pid,
                tid: sample.thread().tid,
                count: sample.count(),
                times: sample.timestamps().to_vec(),
                ..Stack::default()
            };
            for call in sample.trace().calls() {
                stack.add(call);
            }
            stack
        })
        .collect()
}

impl Stack {
    fn add(&mut self, call: Call<'_>) {
        match call {
            Call::LeftOut(count) => self.gap = Some((count as usize, self.frames.len())),
            Call::Truncated(stop) => self.truncated = Some(stop.to_string()),
            // Inlined functions share the frame of their caller.
            Call::Function { depth: 1.., .. } => {}
            Call::Function { frame, .. } => match frame.frame() {
                Frame::Kernel { .. } => self.kernel.push(frame.to_string()),
                _ => self.frames.push(Seen::new(frame)),
            },
            _ => {}
        }
    }

    pub(crate) fn has_python(&self) -> bool {
        self.frames.iter().any(|seen| seen.python().is_some())
    }
}

impl Seen {
    fn new(frame: FrameView<'_>) -> Seen {
        let symbol = frame.symbols().last();
        let name = symbol.map(|symbol| symbol.function.to_string());
        if let Some(script) = frame.script() {
            return Seen::Python {
                name: script.name.to_string(),
                file: script.file.to_string(),
                line: symbol.map_or(0, |symbol| symbol.line),
                start_line: script.start_line,
                is_unnamed: script.is_unnamed,
            };
        }
        match (frame.frame(), frame.module()) {
            (Frame::Native { address, .. }, Some(module)) => {
                Seen::Native { name, file: module.name().to_owned(), address }
            }
            (Frame::Anonymous { address, .. }, _) => Seen::Nowhere { address },
            _ => Seen::Nowhere { address: 0 },
        }
    }

    /// Returns the name of a Python frame.
    pub(crate) fn python(&self) -> Option<&str> {
        match self {
            Seen::Python { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Returns the name of a native frame.
    pub(crate) fn native(&self) -> Option<&str> {
        match self {
            Seen::Native { name, .. } => name.as_deref(),
            _ => None,
        }
    }
}

/// As people read it.
impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Seen::Native { name: Some(name), .. } => f.write_str(name),
            Seen::Native { name: None, file, address } => write!(f, "{file}+{address:#x}"),
            Seen::Python { name, file, line, .. } => {
                write!(f, "{}({}:{line})", name, file.rsplit('/').next().unwrap_or_default())
            }
            Seen::Nowhere { .. } => f.write_str("[anonymous]"),
        }
    }
}
