//! Stacks, before symbolization.

use std::borrow::Cow;

mod frame;

mod walker;

mod word;

pub use ebpf_programs::abi::reason::Stop;
pub use frame::{Found, Frame, ScriptId};
pub use walker::Stack;
#[doc(hidden)]
pub use walker::Walker;
pub(crate) use word::FrameWord;

/// One stack, leaf first: kernel frames, then user frames.
///
/// Two traces are equal when everything in them is; nothing else decides identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Trace<'a> {
    /// The frames, leaf first.
    pub frames: Cow<'a, [Frame]>,
    /// The stop reason.
    pub stop: Stop,
    /// Number of frames dropped from the middle of a stack that exceeds the buffer; 0 if none.
    ///
    /// With a stop reason other than [`Stop::TooDeep`], frames on the root side are missing, too.
    pub omitted: u32,
    /// Index in `frames` before which the dropped frames belong; without meaning if `omitted` is 0.
    pub gap: u32,
}

impl<'a> Trace<'a> {
    /// Creates a stack without a gap.
    pub fn new(frames: impl Into<Cow<'a, [Frame]>>, stop: Stop) -> Trace<'a> {
        Trace { frames: frames.into(), stop, omitted: 0, gap: 0 }
    }

    /// Marks `omitted` frames as missing before the frame with index `gap`.
    #[must_use = "the trace is returned"]
    pub fn with_gap(self, omitted: u32, gap: u32) -> Trace<'a> {
        Trace { omitted, gap, ..self }
    }
}

impl Trace<'_> {
    /// Returns `true` if no frame is missing between leaf and root.
    ///
    /// Kernel threads, and threads within `execve`, have kernel frames only.
    pub fn is_whole(&self) -> bool {
        matches!(self.stop, Stop::Root | Stop::Coroutine | Stop::NoUserStack | Stop::Exec)
    }
}
