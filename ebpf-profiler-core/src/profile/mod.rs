//! Finished profiles: samples with their values, threads and named stacks.
//!
//! ```text
//!   Sample ── kind, timestamps, values
//!     ├── Thread ── Process
//!     └── Trace ── stop reason
//!           └── frames, leaf first ── Symbol, innermost first
//! ```
//!
//! A [`Profile`] is built by a [`ProfileBuilder`], which interns every part by its content. It is
//! immutable afterwards; the views in this module borrow from it.

mod builder;
mod call;
mod diff;
mod encoded;
mod group;
mod interner;
mod label;

mod losses;

mod mapped;
mod merge;
mod names;
mod naming;

mod part;
mod sample_kind;
mod samples;
mod summary;
mod symbolize;
mod traces;
mod tree;
mod view;

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
pub use diff::{FunctionChange, ProfileDiff, StackChange};
pub use encoded::DecodeError;
pub use group::Groups;
pub(crate) use interner::Interner;
pub use label::{LabelValue, Labels, SampleLabel};
pub use losses::Losses;
pub use merge::MergeError;
pub use part::FrameChange;
pub use sample_kind::{SampleKind, Unit};
pub use summary::Summary;
pub(crate) use tree::origins;
pub use tree::{Label, Layout, Limits, Placed, Tree};
pub use view::{FrameView, Leaf, Sample, SampleEvent, TraceView};

/// Samples of a stretch of time, aggregated by exact content.
///
/// A profile is immutable and cheap to clone: clones share one allocation, so that a sink can send
/// one through a channel to another thread or an async task. See [`Profile::merge`] and
/// [`Profile::diff`] for several profiles.
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
    /// The kinds that this handle shows, as indices in [`Data::kinds`].
    selected: Range<u16>,
}

/// The contents of a profile.
#[derive(Clone, Debug)]
struct Data {
    start: SystemTime,
    duration: Duration,
    /// Boot id of the kernel, whose addresses differ after each boot; empty if unknown.
    boot_id: Box<str>,
    kinds: Vec<SampleKind>,
    /// Shared by the parts of a profile, so that a merge of them counts each once.
    losses: Arc<Losses>,
    modules: Vec<Module>,
    scripts: Vec<Script>,
    processes: Vec<Process>,
    threads: Vec<Thread>,
    names: Names,
    frames: Vec<NamedFrame>,
    by_place: Vec<FrameId>,
    traces: Traces,
    samples: Samples,
    periods: Vec<SamplingPeriod>,
}

/// A change of the sampling period of a kind of samples, to keep a budget.
///
/// An event of value v is sampled with probability v / period and counts one period; events of
/// larger values are all sampled and count their value. So the values of samples are right on
/// average, without correction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingPeriod {
    /// Index of the kind in [`Profile::kinds`].
    pub kind: usize,
    /// Time of the change.
    pub since: SystemTime,
    /// Period in the kind's unit; 0 if every event is sampled from then on.
    pub period: u64,
}

/// A process of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Process {
    /// Process id in the initial namespace.
    pub pid: u32,
    /// Time of creation in nanoseconds since boot, which distinguishes processes that reuse an id;
    /// 0 if unknown.
    pub created: u64,
    /// Id of the parent process when the process was first sampled; 0 if unknown.
    pub parent: u32,
    /// Command line, arguments separated by spaces, at most 1,024 bytes; empty if it is unknown or
    /// was not requested (`Builder::command_lines`), and for threads of the kernel. May hold
    /// secrets: sinks of this project don't send it.
    pub command_line: Box<str>,
    /// Path of the executable; empty if unknown, and for threads of the kernel.
    pub executable: Box<str>,
    /// Id of the container, from the control group; empty outside of containers. Of Docker,
    /// containerd, CRI-O, podman, ECS and Garden the id, of LXC and systemd-nspawn the name.
    pub container: Box<str>,
    /// Unique id of the Kubernetes pod, from the control group; empty outside of pods.
    pub pod: Box<str>,
    /// Path of the control group below the root of its hierarchy; empty if unknown. Of several
    /// hierarchies (version 1), the one that names a container.
    pub cgroup: Box<str>,
    /// Id of the user whose rights the process had, in the initial namespace; `None` if unknown.
    pub user: Option<u32>,
    /// Process id in the process's own namespace: what it calls itself; 0 if unknown.
    pub namespace_pid: u32,
    /// Environment variables that were requested (`Builder::environment`) and are set, sorted by
    /// name. May hold secrets: sinks of this project don't send them.
    pub environment: Vec<(Box<str>, Box<str>)>,
    /// Resource attributes that an enrichment added, sorted by key: the name of its image, pod or
    /// tenant.
    pub attributes: Vec<(Box<str>, Box<str>)>,
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
    /// Name of the thread: the command's name unless the thread changed it.
    pub name: Box<str>,
    /// Labels of its samples. A thread that had several sets of labels is several of a profile.
    pub labels: Labels,
}

impl Thread {
    /// Creates a thread.
    pub fn new(process: ProcessId, tid: u32, name: impl Into<Box<str>>) -> Thread {
        Thread { process, tid, name: name.into(), labels: Labels::default() }
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

/// Number of a distinct list of frames in a profile. Traces that differ only in their stop reason
/// share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

/// Number of a distinct trace in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId(pub u32);

/// The kind of a profile without kinds.
static NO_KIND: SampleKind = SampleKind::NONE;

#[derive(Clone, Debug)]
struct NamedFrame {
    frame: Frame,
    /// Range in `Data::names`, innermost first; empty without a name.
    symbols: Range<u32>,
    /// Virtual address of the function in the file, for functions without a name.
    start: Option<NonZeroU64>,
    /// The return address follows no call.
    is_doubtful: bool,
}

impl Profile {
    fn new(data: Data) -> Profile {
        let selected = 0..data.kinds.len() as u16;
        Profile { data: Arc::new(data), selected }
    }

    /// Returns the time at which the profile begins.
    pub fn start(&self) -> SystemTime {
        self.data.start
    }

    /// Returns the length of the profile.
    pub fn duration(&self) -> Duration {
        self.data.duration
    }

    /// Returns the kinds of samples, those without a sample included.
    pub fn kinds(&self) -> &[SampleKind] {
        self.data.kinds.get(self.selected_indices()).unwrap_or_default()
    }

    /// Returns the first kind of samples, which is the one that pictures, tables and folded text
    /// show.
    pub fn kind(&self) -> &SampleKind {
        self.kinds().first().unwrap_or(&NO_KIND)
    }

    /// Returns the profile with samples of kind `index` in [`kinds`](Profile::kinds) only; without
    /// samples if there is no such kind. Shares memory with this one.
    ///
    /// # Examples
    ///
    /// ```
    /// let profile = ebpf_profiler_core::testing::profile("cat;main;read 3");
    /// assert_eq!(profile.kind().name(), "cpu");
    /// assert_eq!(profile.of_kind(0).count(), 3);
    /// assert_eq!(profile.of_kind(1).count(), 0);
    /// ```
    #[must_use = "returns another profile"]
    pub fn of_kind(&self, index: usize) -> Profile {
        let at = usize::from(self.selected.start).saturating_add(index);
        let at = at.min(self.selected.end.into()) as u16;
        Profile { data: self.data.clone(), selected: at..self.selected.end.min(at.saturating_add(1)) }
    }

    /// Returns a profile for each kind, in the order of [`kinds`](Profile::kinds).
    pub fn by_kind(&self) -> impl ExactSizeIterator<Item = Profile> + '_ {
        (0..self.kinds().len()).map(|index| self.of_kind(index))
    }

    /// Returns the time between two samples of a CPU, which is the CPU time that one sample of the
    /// kind [`cpu`](SampleKind::cpu) stands for; zero without that kind.
    pub fn period(&self) -> Duration {
        self.kinds().iter().find(|kind| kind.is_cpu()).map_or(Duration::ZERO, SampleKind::period)
    }

    /// Returns the samples: one for each distinct kind, thread and trace.
    ///
    /// Samples of a kind are adjacent, kinds in the order of [`kinds`](Profile::kinds). Within a
    /// kind those of a process are adjacent, processes in the order of [`ProcessId`]; otherwise
    /// they are in the order of first occurrence.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample<'_>> {
        self.data.samples.of_kinds(&self.selected).map(|stored| Sample { profile: &self.data, stored })
    }

    /// Returns the samples of the first kind.
    pub(crate) fn samples_of_first_kind(&self) -> impl ExactSizeIterator<Item = Sample<'_>> {
        let first = self.selected.start..self.selected.end.min(self.selected.start.saturating_add(1));
        self.data.samples.of_kinds(&first).map(|stored| Sample { profile: &self.data, stored })
    }

    /// Returns the number of events of all samples.
    pub fn count(&self) -> u64 {
        self.samples().map(|sample| sample.count()).sum()
    }

    /// Returns the sum of the values of all samples of the first kind, in its
    /// [unit](SampleKind::unit).
    pub fn total(&self) -> u64 {
        self.samples_of_first_kind().fold(0, |sum, sample| sample.value().saturating_add(sum))
    }

    fn selected_indices(&self) -> Range<usize> {
        self.selected.start.into()..self.selected.end.into()
    }

    /// Returns the changes of sampling periods of the kinds that this handle shows, in the order of
    /// time. Before the first one of a kind, every event was sampled. Empty without a budget.
    pub fn sampling_periods(&self) -> impl Iterator<Item = SamplingPeriod> + '_ {
        let selected = self.selected_indices();
        let periods = self.data.periods.iter().filter(move |it| selected.contains(&it.kind));
        periods.map(|it| SamplingPeriod { kind: it.kind - usize::from(self.selected.start), ..it.clone() })
    }

    /// Returns the number of events that never became samples, by reason. Reasons with a count of 0
    /// are absent.
    pub fn losses(&self) -> impl Iterator<Item = (&str, u64)> + '_ {
        self.data.losses.iter()
    }

    /// Returns the modules, indexed by [`ModuleId`].
    pub fn modules(&self) -> &[Module] {
        &self.data.modules
    }

    /// Returns the functions of scripts, indexed by [`ScriptId`](crate::trace::ScriptId).
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

    /// Returns the distinct frames in the order of their code, which is the order of their symbols
    /// in memory: scripts by function and line, the kernel, each module by address, then code
    /// in no module by address.
    pub fn frames_by_place(&self) -> impl ExactSizeIterator<Item = FrameView<'_>> {
        self.data.by_place.iter().map(|&id| FrameView { profile: &self.data, id })
    }

    /// Returns the distinct functions, in the order of [`FunctionId`]. Line and column of each
    /// belong to one address in it.
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
        let Profile { data, selected } = self;
        let mut data = match Arc::try_unwrap(data) {
            Ok(data) => data,
            Err(data) => return Profile { data, selected },
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
            .field("kinds", &self.kinds())
            .field("samples", &self.samples().len())
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}
