//! Finished profiles: samples with their counts, threads and named stacks.
//!
//! ```text
//!   Sample ── count, timestamps
//!     ├── Thread ── Process
//!     └── Trace ── stop reason
//!           └── frames, leaf first ── Symbol, innermost first
//! ```
//!
//! A [`Profile`] is built by a [`ProfileBuilder`], which interns every part by its content. It is immutable
//! afterwards; the views in this module borrow from it.

mod builder;
mod call;
mod diff;
mod merge;
mod names;
mod samples;
mod summary;
mod traces;
mod tree;
mod view;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::language::Script;
use crate::process::{Module, ModuleId};
use crate::symbol::Symbol;
use crate::trace::Frame;

use names::{Namer, Names};
use samples::Samples;
use traces::Traces;

pub use builder::ProfileBuilder;
pub use call::{Call, Kind};
pub use diff::{ProfileDiff, StackChange};
pub use merge::MergeError;
pub use summary::Summary;
pub use tree::{Label, Layout, Limits, Placed, Tree};
pub use view::{FrameView, Sample, TraceView};

/// Samples of a stretch of time, aggregated by exact content.
///
/// A profile is immutable and cheap to clone: clones share one allocation, so that a sink can send one through a
/// channel to another thread or an async task. See [`Profile::merge`] and [`Profile::diff`] for several profiles.
///
/// # Examples
///
/// ```
/// let profile = ebpf_profiler_core::testing::profile("cat;main;read 3\ncat;main 1");
/// for sample in profile.samples() {
///     println!("{:>6} {}", sample.count(), sample.trace().leaf());
/// }
/// let (sender, receiver) = std::sync::mpsc::channel();
/// sender.send(profile.clone()).unwrap();
/// assert_eq!(receiver.recv().unwrap().count(), 4);
/// ```
#[derive(Clone)]
pub struct Profile {
    data: Arc<Data>,
}

/// The contents of a profile.
#[derive(Debug)]
struct Data {
    start: SystemTime,
    duration: Duration,
    period: Duration,
    is_off_cpu: bool,
    losses: BTreeMap<&'static str, u64>,
    modules: Vec<Module>,
    scripts: Vec<Script>,
    processes: Vec<Process>,
    threads: Vec<Thread>,
    names: Names,
    frames: Vec<NamedFrame>,
    by_place: Vec<FrameId>,
    traces: Traces,
    samples: Samples,
}

/// A process of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Process {
    /// Process id in the initial namespace.
    pub pid: u32,
    /// Time of creation in nanoseconds since boot, which distinguishes processes that reuse an id; 0 if unknown.
    pub created: u64,
    /// Id of the parent process when the process was first sampled; 0 if unknown.
    pub parent: u32,
    /// Command line, arguments separated by spaces, at most 4,096 bytes; empty if unknown, and for threads of the
    /// kernel. May hold secrets: sinks of this project don't send it.
    pub command_line: Box<str>,
    /// Path of the executable; empty if unknown, and for threads of the kernel.
    pub executable: Box<str>,
    /// Id of the container, from the control group; empty outside of containers.
    pub container: Box<str>,
}

impl Process {
    /// Creates a process; its other fields are unknown, and can be set afterwards.
    pub fn new(pid: u32) -> Process {
        Process { pid, ..Process::default() }
    }
}

/// A thread of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Thread {
    /// Process of the thread.
    pub process: ProcessId,
    /// Thread id in the initial namespace.
    pub tid: u32,
    /// Name of the thread; that of the command unless the thread changed it.
    pub name: Box<str>,
}

impl Thread {
    /// Creates a thread.
    pub fn new(process: ProcessId, tid: u32, name: impl Into<Box<str>>) -> Thread {
        Thread { process, tid, name: name.into() }
    }
}

/// Number of a process in a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// Number of a thread in a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// Number of a distinct frame in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// Number of a distinct function in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// Number of a distinct list of frames in a profile. Traces that differ only in their stop reason share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

/// Number of a distinct trace in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId(pub u32);

#[derive(Clone, Debug)]
struct NamedFrame {
    frame: Frame,
    /// Range in `Data::names`, innermost first; empty without a name.
    symbols: Range<u32>,
    /// Virtual address of the function in the file, for functions without a name.
    start: Option<NonZeroU64>,
}

impl Profile {
    fn new(data: Data) -> Profile {
        Profile { data: Arc::new(data) }
    }

    /// Returns the time at which the profile begins.
    pub fn start(&self) -> SystemTime {
        self.data.start
    }

    /// Returns the length of the profile.
    pub fn duration(&self) -> Duration {
        self.data.duration
    }

    /// Returns `true` if the samples stand for time that threads did not run. Such a profile has no period, and each
    /// sample has [`waits`](Sample::waits).
    pub fn is_off_cpu(&self) -> bool {
        self.data.is_off_cpu
    }

    /// Returns the time between two samples of a CPU, which is the CPU time that one count stands for.
    pub fn period(&self) -> Duration {
        self.data.period
    }

    /// Returns the samples: one for each distinct pair of thread and trace.
    ///
    /// Samples of a process are adjacent, processes in the order of [`ProcessId`]; otherwise they are in the order
    /// of first occurrence.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample<'_>> {
        self.data.samples.iter().map(|stored| Sample { profile: &self.data, stored })
    }

    /// Returns the sum of the counts of all samples.
    pub fn count(&self) -> u64 {
        self.samples().map(|sample| sample.count()).sum()
    }

    /// Returns the number of events that never became samples, by reason. Reasons with a count of 0 are absent.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.data.losses.iter().map(|(reason, count)| (*reason, *count))
    }

    /// Returns the modules, indexed by [`ModuleId`].
    pub fn modules(&self) -> &[Module] {
        &self.data.modules
    }

    /// Returns the functions of scripts, indexed by [`ScriptId`](crate::language::ScriptId).
    pub fn scripts(&self) -> &[Script] {
        &self.data.scripts
    }

    /// Returns the processes, indexed by [`ProcessId`].
    pub fn processes(&self) -> &[Process] {
        &self.data.processes
    }

    /// Returns the threads, indexed by [`ThreadId`].
    pub fn threads(&self) -> &[Thread] {
        &self.data.threads
    }

    /// Returns the distinct frames, in the order of [`FrameId`].
    pub fn frames(&self) -> impl ExactSizeIterator<Item = FrameView<'_>> {
        (0..self.data.frames.len()).map(|index| FrameView { profile: &self.data, id: FrameId(index as u32) })
    }

    /// Returns the distinct frames in the order of their code, which is the order of their symbols in memory: scripts by
    /// function and line, the kernel, each module by address, then code in no module by address.
    pub fn frames_by_place(&self) -> impl ExactSizeIterator<Item = FrameView<'_>> {
        self.data.by_place.iter().map(|&id| FrameView { profile: &self.data, id })
    }

    /// Returns the distinct functions, in the order of [`FunctionId`]. Line and column of each are those of one address
    /// in it.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = &Symbol> {
        self.data.names.all_functions()
    }

    /// Returns the number of distinct lists of frames. Every [`StackId`] is less than it.
    pub fn stacks(&self) -> usize {
        self.data.traces.stacks()
    }

    /// Returns the distinct traces, in the order of [`TraceId`].
    pub fn traces(&self) -> impl ExactSizeIterator<Item = TraceView<'_>> {
        (0..self.data.traces.len()).map(|index| TraceView { profile: &self.data, id: TraceId(index as u32) })
    }

    /// Returns the module `id`.
    ///
    /// # Panics
    ///
    /// Panics if `id` is of another profile and not less than the number of modules.
    pub fn module(&self, id: ModuleId) -> &Module {
        self.data.module(id)
    }

    /// Names code made at run time, as an interpreter or a map of its compiler would.
    pub(crate) fn name_anonymous<'s>(self, names: impl Fn(u64) -> &'s [Symbol]) -> Profile {
        let mut data = match Arc::try_unwrap(self.data) {
            Ok(data) => data,
            Err(data) => return Profile { data },
        };
        let mut namer = Namer::default();
        for id in &data.by_place {
            let named = &mut data.frames[id.0 as usize];
            let symbols = match named.frame {
                Frame::Anonymous { address, .. } => names(address),
                _ => data.names.symbols(&named.symbols),
            };
            named.symbols = namer.add(symbols);
        }
        data.names = namer.finish();
        Profile::new(data)
    }
}

impl Data {
    fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.0 as usize]
    }

    #[inline]
    fn named(&self, id: FrameId) -> &NamedFrame {
        &self.frames[id.0 as usize]
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile")
            .field("start", &self.start())
            .field("duration", &self.duration())
            .field("period", &self.period())
            .field("samples", &self.samples().len())
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}
