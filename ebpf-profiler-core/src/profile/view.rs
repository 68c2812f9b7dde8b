//! Views that borrow from a profile.

use std::fmt;
use std::num::NonZeroU64;

use super::samples::{NO_CPU, StoredSample};
use super::{
    Data, FrameId, FunctionId, Labels, NO_KIND, Process, SampleKind, StackId, Thread, ThreadId, TraceId,
};
use crate::language::Script;
use crate::process::Module;
use crate::symbol::Symbol;
use crate::trace::{Found, Frame, Stop};

/// A distinct combination of kind, thread and trace, with the timestamps and values of its events.
///
/// # Examples
///
/// ```
/// let profile = ebpf_profiler_core::testing::profile("cat;main;read 3");
/// let sample = profile.samples().next().unwrap();
/// assert_eq!((sample.count(), &*sample.thread().name), (3, "cat"));
/// assert_eq!(&*sample.process().executable, "/usr/bin/cat");
/// let names: Vec<String> = sample.trace().frames().map(|frame| frame.to_string()).collect();
/// assert_eq!(names, ["read", "main"]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sample<'p> {
    pub(super) profile: &'p Data,
    pub(super) stored: &'p StoredSample,
}

impl<'p> Sample<'p> {
    /// Returns the kind of the sample, which has the unit of its value.
    pub fn kind(&self) -> &'p SampleKind {
        self.profile.kinds.get(usize::from(self.stored.kind)).unwrap_or(&NO_KIND)
    }

    /// Returns the sum of the values of its events, in the kind's unit.
    ///
    /// For CPU time that is the number of events.
    pub fn value(&self) -> u64 {
        match self.values() {
            [] => self.count(),
            values => values.iter().fold(0, |sum, value| value.saturating_add(sum)),
        }
    }

    /// Returns the number of events.
    pub fn count(&self) -> u64 {
        self.timestamps().len() as u64
    }

    /// Returns the time of each event in nanoseconds since 1970, ascending within one CPU.
    #[inline]
    pub fn timestamps(&self) -> &'p [u64] {
        self.profile.samples.times(self.stored)
    }

    /// Returns the CPU of each timestamp; `None` where it is unknown.
    pub fn cpus(&self) -> impl ExactSizeIterator<Item = Option<u32>> + use<'p> {
        self.profile.samples.cpus(self.stored).iter().map(|&cpu| (cpu != NO_CPU).then_some(cpu))
    }

    /// Returns the value of the event at each timestamp, in the kind's unit; may be empty if all
    /// are 1.
    #[inline]
    pub fn values(&self) -> &'p [u64] {
        self.profile.samples.values(self.stored)
    }

    /// Returns the events, in the order of [`timestamps`](Sample::timestamps).
    ///
    /// # Examples
    ///
    /// ```
    /// let profile = ebpf_profiler_core::testing::profile("cat;main;read 3");
    /// let sample = profile.samples().next().unwrap();
    /// let events: Vec<(u64, u64)> = sample.events().map(|event| (event.time, event.value)).collect();
    /// assert_eq!(events, [(0, 1), (10_000_000, 1), (20_000_000, 1)]);
    /// ```
    pub fn events(&self) -> impl Iterator<Item = SampleEvent<'p>> + use<'p> {
        let labels = self.labels();
        self.profile.samples.events(self.stored).map(move |event| SampleEvent {
            time: event.time,
            cpu: (event.cpu != NO_CPU).then_some(event.cpu),
            value: event.value,
            labels,
        })
    }

    /// Returns the thread.
    #[inline]
    pub fn thread(&self) -> &'p Thread {
        &self.profile.threads[self.stored.thread.0 as usize]
    }

    /// Returns the labels, which are those of the thread at the time of the events.
    pub fn labels(&self) -> &'p Labels {
        &self.thread().labels
    }

    /// Returns the number of the thread.
    #[inline]
    pub fn thread_id(&self) -> ThreadId {
        self.stored.thread
    }

    /// Returns the process of the thread.
    pub fn process(&self) -> &'p Process {
        &self.profile.processes[self.thread().process.0 as usize]
    }

    /// Returns the stack.
    #[inline]
    pub fn trace(&self) -> TraceView<'p> {
        TraceView { profile: self.profile, id: self.stored.trace }
    }
}

/// One event of a [`Sample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleEvent<'p> {
    /// Time in nanoseconds since 1970.
    pub time: u64,
    /// CPU; `None` if it is unknown.
    pub cpu: Option<u32>,
    /// Value in the unit of the sample's [kind](Sample::kind).
    pub value: u64,
    /// Labels of the thread at that time.
    pub labels: &'p Labels,
}

/// A stack of a profile.
#[derive(Clone, Copy, Debug)]
pub struct TraceView<'p> {
    pub(super) profile: &'p Data,
    pub(super) id: TraceId,
}

impl<'p> TraceView<'p> {
    /// Returns its number in the profile.
    pub fn id(&self) -> TraceId {
        self.id
    }

    /// Returns the number of its list of frames.
    #[inline]
    pub fn stack(&self) -> StackId {
        self.profile.traces.get(self.id).stack
    }

    /// Returns the frames, leaf first.
    #[inline]
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = FrameView<'p>> + ExactSizeIterator + use<'p> {
        let profile = self.profile;
        profile.traces.frames(self.stack()).iter().map(move |&id| FrameView { profile, id })
    }

    /// Returns the leaf for display: the innermost function, in the kernel if the sample was taken
    /// there; `[no stack]` if there is no frame.
    pub fn leaf(&self) -> Leaf<'p> {
        Leaf(self.frames().next())
    }

    /// Returns the stop reason.
    #[inline]
    pub fn stop(&self) -> Stop {
        self.profile.traces.get(self.id).stop
    }

    /// Returns the number of frames missing in the middle, and the index in
    /// [`frames`](TraceView::frames) before which they are missing.
    #[inline]
    pub fn omitted(&self) -> Option<(u32, usize)> {
        let stored = self.profile.traces.get(self.id);
        (stored.omitted > 0).then_some((stored.omitted, stored.gap as usize))
    }

    /// Returns `true` if a frame is [doubtful](FrameView::is_doubtful).
    pub fn is_doubtful(&self) -> bool {
        self.frames().any(|frame| frame.is_doubtful())
    }

    /// Returns `true` if a frame is [guessed](FrameView::is_guessed).
    pub fn is_guessed(&self) -> bool {
        self.frames().any(|frame| frame.is_guessed())
    }

    /// Returns `true` if a frame is [derived](FrameView::is_derived).
    pub fn is_derived(&self) -> bool {
        self.frames().any(|frame| frame.is_derived())
    }

    /// Returns `true` if no frame is missing between leaf and root.
    #[inline]
    pub fn is_whole(&self) -> bool {
        matches!(self.stop(), Stop::Root | Stop::Coroutine | Stop::NoUserStack | Stop::Exec)
    }
}

/// The interrupted function of a stack, for display.
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
///
/// # Examples
///
/// ```
/// let profile = ebpf_profiler_core::testing::profile("cat;main;libc.so.6`read;inner_[i]");
/// let frame = profile.samples().next().unwrap().trace().frames().next().unwrap();
/// let names: Vec<&str> = frame.symbols().iter().map(|symbol| &*symbol.function).collect();
/// assert_eq!(names, ["inner", "read"]);
/// assert_eq!(frame.module().map(|module| module.name()), Some("libc.so.6"));
/// assert_eq!(frame.to_string(), "inner");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'p> {
    pub(super) profile: &'p Data,
    pub(super) id: FrameId,
}

impl<'p> FrameView<'p> {
    /// Returns its number in the profile.
    pub fn id(&self) -> FrameId {
        self.id
    }

    /// Returns the frame without names.
    #[inline]
    pub fn frame(&self) -> Frame {
        self.profile.named(self.id).frame
    }

    /// Returns the functions of the frame, innermost first: each but the last is inlined into the
    /// next.
    ///
    /// Empty without a name.
    #[inline]
    pub fn symbols(&self) -> &'p [Symbol] {
        self.profile.names.symbols(&self.profile.named(self.id).symbols)
    }

    /// Returns the numbers of those functions.
    #[inline]
    pub fn functions(&self) -> &'p [FunctionId] {
        self.profile.names.functions(&self.profile.named(self.id).symbols)
    }

    /// Returns the file of a native frame.
    pub fn module(&self) -> Option<&'p Module> {
        match self.frame() {
            Frame::Native { module, .. } => Some(self.profile.module(module)),
            _ => None,
        }
    }

    /// Returns the function of a script frame.
    pub fn script(&self) -> Option<&'p Script> {
        match self.frame() {
            Frame::Script { function, .. } => self.profile.scripts.get(function.0 as usize),
            _ => None,
        }
    }

    /// Returns the start of a function without a name, as a virtual address in the file.
    ///
    /// Stripped code has no names, but its unwind data has the starts of functions.
    pub fn start(&self) -> Option<u64> {
        self.profile.named(self.id).start.map(NonZeroU64::get)
    }

    /// Returns `true` if the frame was guessed: found through a frame pointer, without unwind data.
    /// So are [doubtful](FrameView::is_doubtful) frames.
    pub fn is_guessed(&self) -> bool {
        self.found() == Some(Found::Guessed) || self.is_doubtful()
    }

    /// Returns `true` if the frame was found by a rule that was derived from the instructions of
    /// code without unwind data.
    pub fn is_derived(&self) -> bool {
        self.found() == Some(Found::Derived)
    }

    /// Returns `true` if the frame's return address follows no call instruction of its file.
    ///
    /// Each distinct frame is checked once. Such a frame is wrong, because unwind data is, or its
    /// code was entered in an unusual way.
    pub fn is_doubtful(&self) -> bool {
        self.profile.named(self.id).is_doubtful
    }

    /// Returns `true` if the frame is a function that a runtime's compiler inlined into the next
    /// one.
    pub fn is_inlined(&self) -> bool {
        self.found() == Some(Found::Inlined)
    }

    pub(super) fn found(&self) -> Option<Found> {
        self.frame().found()
    }
}

/// Displays the innermost function's name; without one the file with the start of the function, or
/// with the address if that is unknown too: `malloc`, `libc.so.6+0x2e1c0`, `[kernel]`,
/// `[anonymous]`. The alternate form (`{:#}`) always has the address, for other tools to symbolize.
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
