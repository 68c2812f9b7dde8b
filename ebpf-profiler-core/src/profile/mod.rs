//! A finished profile: what was seen, how often, with names.
//!
//! ```text
//!   Sample ── count, timestamps
//!     ├── Thread ── Process
//!     └── Trace ── why it ends
//!           └── frames, leaf first ── Symbol, innermost first
//! ```
//!
//! A [`Profile`] is built by a [`ProfileBuilder`], which interns every part by its content. It is immutable
//! afterwards; the views here borrow from it.

mod builder;
mod call;
mod names;
mod samples;
mod summary;
mod traces;
mod tree;
mod view;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Range;
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
pub use summary::Summary;
pub use tree::{Label, Layout, Limits, Placed, Tree};
pub use view::{FrameView, Sample, TraceView};

/// Samples of a stretch of time, aggregated by exact content.
#[derive(Debug)]
pub struct Profile {
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

/// A process, as its samples saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its id in the initial namespace.
    pub pid: u32,
    /// Nanoseconds between boot and its creation, which tells two processes with one id apart; 0 if unknown.
    pub created: u64,
    /// The path of its executable; empty where it has none (a thread of the kernel) or it isn't known.
    pub executable: Box<str>,
    /// The container that it runs in, as its control group says; empty outside of any.
    pub container: Box<str>,
}

/// A thread, as its samples saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The process that it belongs to.
    pub process: ProcessId,
    /// Its id in the initial namespace.
    pub tid: u32,
    /// Its name: the command's name, unless it gave itself another one.
    pub name: Box<str>,
}

/// A process of a profile, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// A thread of a profile, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// A distinct frame of a profile, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// A distinct function of a profile, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// A distinct list of frames of a profile, by number: that of one trace, or of several that only differ in how
/// they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

/// A distinct trace of a profile, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId(pub u32);

#[derive(Debug)]
struct NamedFrame {
    frame: Frame,
    /// In `Profile::names`, innermost first; empty where it has no name.
    symbols: Range<u32>,
    /// Where its function begins in the file, where that has no name but is known.
    start: Option<NonZeroU64>,
}

impl Profile {
    /// When it begins.
    pub fn start(&self) -> SystemTime {
        self.start
    }

    /// How long it is.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Whether it tells of the time that threads did not run; then there is no period, and each sample has
    /// [`waits`](Sample::waits).
    pub fn is_off_cpu(&self) -> bool {
        self.is_off_cpu
    }

    /// The time between two ticks of a CPU: what one count stands for.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// What was seen: one entry for each distinct pair of thread and trace.
    ///
    /// Those of a process stand together, the processes in the order of [`ProcessId`], otherwise in the order of
    /// first sight.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample<'_>> {
        self.samples.iter().map(|stored| Sample { profile: self, stored })
    }

    /// How many ticks there are in all samples together.
    pub fn count(&self) -> u64 {
        self.samples().map(|sample| sample.count()).sum()
    }

    /// What is missing and why: ticks that never became samples, by reason. Reasons with 0 aren't listed.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.losses.iter().map(|(reason, count)| (*reason, *count))
    }

    /// The modules, indexed by [`ModuleId`].
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The functions of scripts, indexed by [`ScriptId`](crate::language::ScriptId).
    pub fn scripts(&self) -> &[Script] {
        &self.scripts
    }

    /// The processes, indexed by [`ProcessId`].
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The threads, indexed by [`ThreadId`].
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The distinct frames, in the order of [`FrameId`].
    pub fn frames(&self) -> impl ExactSizeIterator<Item = FrameView<'_>> {
        (0..self.frames.len()).map(|index| FrameView { profile: self, id: FrameId(index as u32) })
    }

    /// The same in the order in which they lie in programs, and their symbols in memory: scripts by function and line, the
    /// kernel, each module and then what lies in none by address.
    pub fn frames_by_place(&self) -> impl ExactSizeIterator<Item = FrameView<'_>> {
        self.by_place.iter().map(|&id| FrameView { profile: self, id })
    }

    /// The distinct functions, in the order of [`FunctionId`], each as the first of its symbols; its line and
    /// column are those of one address in it.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = &Symbol> {
        self.names.all_functions()
    }

    /// How many distinct lists of frames there are: the numbers of [`StackId`] are below.
    pub fn stacks(&self) -> usize {
        self.traces.stacks()
    }

    /// The distinct traces, in the order of [`TraceId`].
    pub fn traces(&self) -> impl ExactSizeIterator<Item = TraceView<'_>> {
        (0..self.traces.len()).map(|index| TraceView { profile: self, id: TraceId(index as u32) })
    }

    /// The module with this id.
    ///
    /// # Panics
    ///
    /// When the id belongs to another profile.
    pub fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.0 as usize]
    }

    /// Gives names to code that was made at run time, as an interpreter or a map of its compiler would.
    pub(crate) fn name_anonymous<'s>(&mut self, names: impl Fn(u64) -> &'s [Symbol]) {
        let mut namer = Namer::default();
        for id in &self.by_place {
            let named = &mut self.frames[id.0 as usize];
            let symbols = match named.frame {
                Frame::Anonymous { address, .. } => names(address),
                _ => self.names.symbols(&named.symbols),
            };
            named.symbols = namer.add(symbols);
        }
        self.names = namer.finish();
    }

    #[inline]
    fn named(&self, id: FrameId) -> &NamedFrame {
        &self.frames[id.0 as usize]
    }
}
