//! Views into a profile.

use std::fmt;
use std::num::NonZeroU64;

use super::samples::{NO_CPU, StoredSample};
use super::{Data, FrameId, FunctionId, Process, StackId, Thread, ThreadId, TraceId};
use crate::language::Script;
use crate::process::Module;
use crate::symbol::Symbol;
use crate::trace::{Found, Frame, Stop};

/// One distinct pair of thread and trace, and when it was seen.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'p> {
    pub(super) profile: &'p Data,
    pub(super) stored: &'p StoredSample,
}

impl<'p> Sample<'p> {
    /// How often it was seen.
    pub fn count(&self) -> u64 {
        self.timestamps().len() as u64
    }

    /// When it was seen, in nanoseconds since 1970, ascending within one CPU.
    #[inline]
    pub fn timestamps(&self) -> &'p [u64] {
        self.profile.samples.times(self.stored)
    }

    /// Returns the CPU of each timestamp; `None` where it is unknown.
    pub fn cpus(&self) -> impl ExactSizeIterator<Item = Option<u32>> + use<'p> {
        self.profile.samples.cpus(self.stored).iter().map(|&cpu| (cpu != NO_CPU).then_some(cpu))
    }

    /// How long it did not run each time, in nanoseconds, as many as there are timestamps; none in a profile of time
    /// on the CPU.
    #[inline]
    pub fn waits(&self) -> &'p [u64] {
        self.profile.samples.waits(self.stored)
    }

    /// The thread.
    #[inline]
    pub fn thread(&self) -> &'p Thread {
        &self.profile.threads[self.stored.thread.0 as usize]
    }

    /// The number of the thread.
    #[inline]
    pub fn thread_id(&self) -> ThreadId {
        self.stored.thread
    }

    /// The process of the thread.
    pub fn process(&self) -> &'p Process {
        &self.profile.processes[self.thread().process.0 as usize]
    }

    /// The stack.
    #[inline]
    pub fn trace(&self) -> TraceView<'p> {
        TraceView { profile: self.profile, id: self.stored.trace }
    }
}

/// A stack of a profile.
#[derive(Clone, Copy, Debug)]
pub struct TraceView<'p> {
    pub(super) profile: &'p Data,
    pub(super) id: TraceId,
}

impl<'p> TraceView<'p> {
    /// Its number.
    pub fn id(&self) -> TraceId {
        self.id
    }

    /// The number of its frames taken together.
    #[inline]
    pub fn stack(&self) -> StackId {
        self.profile.traces.get(self.id).stack
    }

    /// The frames, leaf first.
    #[inline]
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = FrameView<'p>> + ExactSizeIterator + use<'p> {
        let profile = self.profile;
        profile.traces.frames(self.stack()).iter().map(move |&id| FrameView { profile, id })
    }

    /// The frame that was interrupted; none where the stack couldn't be walked at all.
    pub fn leaf(&self) -> Leaf<'p> {
        Leaf(self.frames().next())
    }

    /// Why it ends where it ends.
    #[inline]
    pub fn stop(&self) -> Stop {
        self.profile.traces.get(self.id).stop
    }

    /// How many frames are missing in its middle, and before which of the [`frames`](TraceView::frames).
    #[inline]
    pub fn omitted(&self) -> Option<(u32, usize)> {
        let stored = self.profile.traces.get(self.id);
        (stored.omitted > 0).then_some((stored.omitted, stored.gap as usize))
    }

    /// Whether nothing is missing between its leaf and its root.
    #[inline]
    pub fn is_whole(&self) -> bool {
        matches!(self.stop(), Stop::Root | Stop::NoUserStack)
    }
}

/// The name of the interrupted function, for printing.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'p>(Option<FrameView<'p>>);

impl fmt::Display for Leaf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(frame) => frame.fmt(f),
            None => f.write_str("[no stack]"),
        }
    }
}

/// A distinct frame of a profile, with its names.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'p> {
    pub(super) profile: &'p Data,
    pub(super) id: FrameId,
}

impl<'p> FrameView<'p> {
    /// Its number.
    pub fn id(&self) -> FrameId {
        self.id
    }

    /// What it is, without names.
    #[inline]
    pub fn frame(&self) -> Frame {
        self.profile.named(self.id).frame
    }

    /// The functions that it lies in, innermost first: all but the last were inlined into the one behind.
    ///
    /// Empty where there is no name.
    #[inline]
    pub fn symbols(&self) -> &'p [Symbol] {
        self.profile.names.symbols(&self.profile.named(self.id).symbols)
    }

    /// The numbers of those functions.
    #[inline]
    pub fn functions(&self) -> &'p [FunctionId] {
        self.profile.names.functions(&self.profile.named(self.id).symbols)
    }

    /// The file that it lies in.
    pub fn module(&self) -> Option<&'p Module> {
        match self.frame() {
            Frame::Native { module, .. } => Some(self.profile.module(module)),
            _ => None,
        }
    }

    /// The function of a script that it is a call of.
    pub fn script(&self) -> Option<&'p Script> {
        match self.frame() {
            Frame::Script { function, .. } => self.profile.scripts.get(function.0 as usize),
            _ => None,
        }
    }

    /// Where its function begins, a virtual address of its file, if that function has no name but is known to be one.
    ///
    /// Stripped code has no names, but tells whoever unwinds it where its functions begin.
    pub fn start(&self) -> Option<u64> {
        self.profile.named(self.id).start.map(NonZeroU64::get)
    }

    /// Whether it was found through the frame pointer of code without unwind data.
    pub fn is_guessed(&self) -> bool {
        let (Frame::Native { found, .. } | Frame::Anonymous { found, .. } | Frame::Script { found, .. }) =
            self.frame()
        else {
            return false;
        };
        found == Found::Guessed
    }
}

/// The innermost function's name; where there is none, the file and where the function begins, or the address if
/// that isn't known either: `malloc`, `libc.so.6+0x2e1c0`, `[kernel]`, `[anonymous]`. In the alternate form (`{:#}`) it is
/// always the address, for others to look up.
impl fmt::Display for FrameView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.symbols().first() {
            Some(symbol) => f.write_str(&symbol.function),
            None => self.fmt_unnamed(f),
        }
    }
}

impl FrameView<'_> {
    pub(super) fn fmt_unnamed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame() {
            Frame::Kernel { .. } => f.write_str("[kernel]"),
            Frame::Native { module, address, .. } => {
                let start = self.start().filter(|_| !f.alternate());
                let address = start.unwrap_or(address);
                write!(f, "{}+{address:#x}", self.profile.module(module).name())
            }
            Frame::Script { .. } => f.write_str("[script]"),
            Frame::Anonymous { .. } => f.write_str("[anonymous]"),
        }
    }
}
