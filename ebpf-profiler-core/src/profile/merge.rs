//! Several profiles as one.

#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hashbrown::HashMap;

use super::interner::Interner;
use super::names::Namer;
use super::naming::order;
use super::part::keep;
use super::samples::{Event, SampleInterner};
use super::traces::TraceInterner;
use super::{
    Data, FrameChange, FrameId, FrameView, Losses, NamedFrame, Process, ProcessId, Profile, Sample,
    SampleKind, SamplingPeriod, Thread, ThreadId, TraceId,
};
use crate::language::Script;
use crate::process::{Module, ModuleId};
use crate::symbol::Symbol;
use crate::trace::{Frame, ScriptId, Trace};

/// An error while merging profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// No profile was given.
    Empty,
    /// Their periods differ, and one of them is unknown.
    Period {
        /// The period of the first profile.
        first: Duration,
        /// The period of the other profile.
        other: Duration,
    },
    /// Their kinds of samples differ.
    Kind,
}

impl Profile {
    /// Merges profiles by content: processes, threads, modules, frames with their names, stacks and
    /// samples that are equal become one.
    ///
    /// Modules are equal if path and build id are, frames if address and names are. The result
    /// spans all profiles, from the earliest start to the latest end. Losses add up.
    ///
    /// CPU time of profiles with different periods is in nanoseconds: each event's value is the
    /// time that it stands for. The result's kind is then `cpu` in
    /// [`Unit::Nanoseconds`](super::Unit::Nanoseconds), and its [`period`](Profile::period) is
    /// zero.
    ///
    /// # Errors
    ///
    /// Fails if there is no profile, if kinds of samples differ, or if periods differ and one of
    /// them is unknown.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::{profile::Profile, testing};
    ///
    /// let first = testing::profile("cat;main;read 3\ncat;main 1");
    /// let second = testing::profile("cat;main;read 4\ncat;other 2");
    /// let both = Profile::merge([&first, &second])?;
    /// let counts: Vec<u64> = both.samples().map(|sample| sample.count()).collect();
    /// assert_eq!(counts, [7, 1, 2]);
    /// # Ok::<(), ebpf_profiler_core::profile::MergeError>(())
    /// ```
    pub fn merge<'p>(profiles: impl IntoIterator<Item = &'p Profile>) -> Result<Profile, MergeError> {
        let profiles: Vec<&Profile> = profiles.into_iter().collect();
        let mut merger = Merger::new(common_kinds(&profiles)?);
        let mut spans =
            profiles.iter().map(|profile| (profile.start(), profile.start() + profile.duration()));
        let (mut start, mut end) = spans.next().ok_or(MergeError::Empty)?;
        for span in spans {
            (start, end) = (start.min(span.0), end.max(span.1));
        }
        for profile in profiles {
            merger.add(profile, profile.samples(), &mut keep);
        }
        Ok(merger.finish(start, end.duration_since(start).unwrap_or_default()))
    }
}

/// Returns the kinds in which the samples of all profiles can be.
fn common_kinds(profiles: &[&Profile]) -> Result<Vec<SampleKind>, MergeError> {
    let first = profiles.first().ok_or(MergeError::Empty)?;
    if profiles.iter().any(|profile| profile.kinds().len() != first.kinds().len()) {
        return Err(MergeError::Kind);
    }
    let kinds = first.kinds().iter().enumerate();
    kinds
        .map(|(index, kind)| common_kind(kind, profiles.iter().map(|profile| &profile.kinds()[index])))
        .collect()
}

fn common_kind<'p>(
    first: &SampleKind,
    all: impl Iterator<Item = &'p SampleKind> + Clone,
) -> Result<SampleKind, MergeError> {
    if all.clone().all(|kind| kind == first) {
        return Ok(first.clone());
    }
    if !first.is_cpu_time() || !all.clone().all(SampleKind::is_cpu_time) {
        return Err(MergeError::Kind);
    }
    let is_unknown = |kind: &&SampleKind| kind.is_cpu() && kind.period().is_zero();
    match all.clone().find(|kind| is_unknown(kind) || (is_unknown(&first) && *kind != first)) {
        Some(other) => Err(MergeError::Period { first: first.period(), other: other.period() }),
        None => Ok(SampleKind::cpu_nanoseconds()),
    }
}

/// Returns the factor of values of `kind` as values of `merged`.
fn weight(kind: &SampleKind, merged: &SampleKind) -> u64 {
    match kind.is_cpu() && !merged.is_cpu() {
        true => u64::try_from(kind.period().as_nanos()).unwrap_or(u64::MAX),
        false => 1,
    }
}

/// Interners of a merged profile.
#[derive(Default)]
pub(super) struct Merger {
    kinds: Vec<SampleKind>,
    /// The boot id of all profiles; empty if they differ.
    boot_id: Option<Box<str>>,
    losses: Vec<Arc<Losses>>,
    modules: Vec<Module>,
    by_file: HashMap<(Box<str>, Box<[u8]>), ModuleId>,
    scripts: Vec<Script>,
    by_script: HashMap<Script, ScriptId>,
    processes: Interner<Process>,
    threads: Interner<Thread>,
    frames: Interner<NamedContent>,
    traces: TraceInterner,
    samples: SampleInterner,
    periods: Vec<SamplingPeriod>,
}

/// A frame with its names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NamedContent {
    frame: Frame,
    symbols: Vec<Symbol>,
    start: Option<NonZeroU64>,
    is_doubtful: bool,
}

impl Merger {
    /// Creates a merger of samples of these kinds.
    pub(super) fn new(kinds: Vec<SampleKind>) -> Merger {
        Merger { kinds, ..Merger::default() }
    }

    /// Adds samples of a profile, and the parts that they need.
    pub(super) fn add<'p>(
        &mut self,
        profile: &'p Profile,
        samples: impl Iterator<Item = Sample<'p>>,
        change: &mut dyn FnMut(FrameView<'p>) -> FrameChange,
    ) {
        let (data, first) = (&*profile.data, profile.selected.start);
        let weights: Vec<u64> =
            profile.kinds().iter().zip(&self.kinds).map(|(kind, merged)| weight(kind, merged)).collect();
        self.periods.extend(profile.sampling_periods().map(|change| {
            let period = change.period.saturating_mul(weights[change.kind]);
            SamplingPeriod { period, ..change }
        }));
        let boot_id = self.boot_id.get_or_insert_with(|| data.boot_id.clone());
        if *boot_id != data.boot_id {
            *boot_id = Box::default();
        }
        if !self.losses.iter().any(|known| Arc::ptr_eq(known, &data.losses)) {
            self.losses.push(data.losses.clone());
        }
        let mut added = Added { merger: self, ids: Ids::new(data), data, change };
        // In the order of their ids: the samples of each kind are sorted by it.
        let samples: Vec<Sample<'p>> = samples.collect();
        let mut processes: Vec<ProcessId> = samples.iter().map(|sample| sample.thread().process).collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes {
            added.process(process);
        }
        for Sample { stored, .. } in samples {
            let (thread, trace) = (added.thread(stored.thread), added.trace(stored.trace));
            let kind = stored.kind - first;
            let weight = weights[usize::from(kind)];
            let events = data.samples.events(stored);
            let events = events.map(|it| Event { value: it.value.saturating_mul(weight), ..it });
            added.merger.samples.add_all(kind, thread, trace, events);
        }
    }

    fn module(&mut self, module: &Module) -> ModuleId {
        let next = ModuleId(self.modules.len() as u32);
        let key = (module.path.clone(), module.build_id.clone());
        let id = *self.by_file.entry(key).or_insert(next);
        if id == next {
            self.modules.push(module.clone());
        } else {
            self.modules[id.0 as usize].extend(module.start, module.end, module.offset);
        }
        id
    }

    fn script(&mut self, script: &Script) -> ScriptId {
        let next = ScriptId(self.scripts.len() as u32);
        let id = *self.by_script.entry(script.clone()).or_insert(next);
        if id == next {
            self.scripts.push(script.clone());
        }
        id
    }

    /// Returns the profile.
    pub(super) fn finish(mut self, start: SystemTime, duration: Duration) -> Profile {
        self.periods.sort_by_key(|period| (period.since, period.kind, period.period));
        self.periods.dedup();
        let frames: Vec<Frame> = self.frames.items.iter().map(|content| content.frame).collect();
        let order = order(&frames);
        let mut namer = Namer::default();
        let mut named: Vec<NamedFrame> = frames
            .iter()
            .map(|&frame| NamedFrame { frame, symbols: 0..0, start: None, is_doubtful: false })
            .collect();
        for &(.., frame) in &order {
            let content = &self.frames.items[frame as usize];
            named[frame as usize].symbols = namer.add(&content.symbols);
            named[frame as usize].start = content.start;
            named[frame as usize].is_doubtful = content.is_doubtful;
        }
        Profile::new(Data {
            start,
            duration,
            boot_id: self.boot_id.unwrap_or_default(),
            kinds: self.kinds,
            losses: sum(self.losses),
            modules: self.modules,
            scripts: self.scripts,
            samples: self.samples.finish(&self.threads.items),
            processes: self.processes.items,
            threads: self.threads.items,
            names: namer.finish(),
            frames: named,
            by_place: order.into_iter().map(|(.., frame)| FrameId(frame)).collect(),
            traces: self.traces.finish(),
            periods: self.periods,
        })
    }
}

/// One profile that is being added to a merger.
struct Added<'m, 'p> {
    merger: &'m mut Merger,
    ids: Ids,
    data: &'p Data,
    change: &'m mut dyn FnMut(FrameView<'p>) -> FrameChange,
}

/// Ids in the merged profile, by those in the added one; `None` for parts that no sample has needed
/// yet.
struct Ids {
    modules: Vec<Option<ModuleId>>,
    scripts: Vec<Option<ScriptId>>,
    processes: Vec<Option<ProcessId>>,
    threads: Vec<Option<ThreadId>>,
    frames: Vec<Option<Copied>>,
    traces: Vec<Option<TraceId>>,
}

/// A frame in the merged profile; `None` if it was dropped.
type Copied = Option<FrameId>;

impl Ids {
    fn new(data: &Data) -> Ids {
        Ids {
            modules: vec![None; data.modules.len()],
            scripts: vec![None; data.scripts.len()],
            processes: vec![None; data.processes.len()],
            threads: vec![None; data.threads.len()],
            frames: vec![None; data.frames.len()],
            traces: vec![None; data.traces.len()],
        }
    }
}

impl<'p> Added<'_, 'p> {
    fn thread(&mut self, id: ThreadId) -> ThreadId {
        let index = id.0 as usize;
        if let Some(known) = self.ids.threads[index] {
            return known;
        }
        let thread = self.data.threads[index].clone();
        let process = self.process(thread.process);
        let new = ThreadId(self.merger.threads.intern(Thread { process, ..thread }));
        self.ids.threads[index] = Some(new);
        new
    }

    fn process(&mut self, id: ProcessId) -> ProcessId {
        let Added { merger, ids, data, .. } = self;
        let index = id.0 as usize;
        *ids.processes[index]
            .get_or_insert_with(|| ProcessId(merger.processes.intern(data.processes[index].clone())))
    }

    fn module(&mut self, id: ModuleId) -> ModuleId {
        let Added { merger, ids, data, .. } = self;
        *ids.modules[id.0 as usize].get_or_insert_with(|| merger.module(data.module(id)))
    }

    fn script(&mut self, id: ScriptId) -> ScriptId {
        let Added { merger, ids, data, .. } = self;
        let index = id.0 as usize;
        *ids.scripts[index].get_or_insert_with(|| merger.script(&data.scripts[index]))
    }

    fn trace(&mut self, id: TraceId) -> TraceId {
        if let Some(known) = self.ids.traces[id.0 as usize] {
            return known;
        }
        let stored = *self.data.traces.get(id);
        let (mut frames, mut gap) = (Vec::new(), stored.gap);
        for (index, &frame) in (0..).zip(self.data.traces.frames(stored.stack)) {
            match self.frame(frame) {
                Some(frame) => frames.push(frame),
                None => gap -= u32::from(index < stored.gap),
            }
        }
        let (stop, omitted) = (stored.stop, stored.omitted);
        let trace = Trace { frames: [].as_slice().into(), stop, omitted, gap };
        let new = self.merger.traces.intern(&trace, frames.into_iter());
        self.ids.traces[id.0 as usize] = Some(new);
        new
    }

    fn frame(&mut self, id: FrameId) -> Copied {
        let index = id.0 as usize;
        if let Some(known) = self.ids.frames[index] {
            return known;
        }
        let new = match (self.change)(FrameView { profile: self.data, id }) {
            FrameChange::Keep => Some(self.kept_frame(id)),
            FrameChange::Rename(symbols) => Some(self.renamed_frame(id, symbols)),
            FrameChange::Drop => None,
        };
        self.ids.frames[index] = Some(new);
        new
    }

    fn kept_frame(&mut self, id: FrameId) -> FrameId {
        let named = self.data.named(id);
        let frame = match named.frame {
            Frame::Script { function, line, found } => {
                Frame::Script { function: self.script(function), line, found }
            }
            frame => self.frame_of_file(frame),
        };
        let symbols = self.data.names.symbols(&named.symbols).to_vec();
        self.intern(NamedContent { frame, symbols, start: named.start, is_doubtful: named.is_doubtful })
    }

    fn renamed_frame(&mut self, id: FrameId, symbols: Vec<Symbol>) -> FrameId {
        let named = self.data.named(id);
        let frame = match named.frame {
            Frame::Script { function, found, .. } => {
                let language = self.data.scripts[function.0 as usize].language;
                let is_unnamed = symbols.is_empty();
                let Symbol { function: name, file, start_line, line, .. } =
                    symbols.last().cloned().unwrap_or_else(|| Symbol::new("[unknown]"));
                let script = Script { language, name, file, start_line, is_unnamed };
                Frame::Script { function: self.merger.script(&script), line, found }
            }
            frame => self.frame_of_file(frame),
        };
        self.intern(NamedContent { frame, symbols, start: None, is_doubtful: named.is_doubtful })
    }

    fn frame_of_file(&mut self, frame: Frame) -> Frame {
        match frame {
            Frame::Native { module, address, found } => {
                Frame::Native { module: self.module(module), address, found }
            }
            frame => frame,
        }
    }

    fn intern(&mut self, content: NamedContent) -> FrameId {
        FrameId(self.merger.frames.intern(content))
    }
}

fn sum(all: Vec<Arc<Losses>>) -> Arc<Losses> {
    let mut all = all.into_iter();
    let first = all.next().unwrap_or_default();
    all.fold(first, |mut sum, losses| {
        Arc::make_mut(&mut sum).add_all(&losses);
        sum
    })
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeError::Empty => f.write_str("there is no profile to merge"),
            MergeError::Period { first, other } => write!(
                f,
                "cannot merge profiles with periods of {first:?} and {other:?}: one is unknown"
            ),
            MergeError::Kind => f.write_str("cannot merge profiles with different kinds of samples; merge each kind alone: Profile::of_kind"),
        }
    }
}

impl std::error::Error for MergeError {}
