//! Aggregation of traces into a profile.

use std::time::{Duration, SystemTime};

use hashbrown::HashMap;

use super::interner::Interner;
use super::naming::{Naming, number_modules, number_scripts, order};
use super::samples::{Event, NO_CPU, SampleInterner};
use super::traces::{StoredTrace, TraceInterner};
use super::{
    Data, FrameId, Losses, Process, ProcessId, Profile, SampleKind, SamplingPeriod, Thread, ThreadId, TraceId,
};
use crate::language::Script;
use crate::process::{Module, ModuleId};
use crate::symbol::Symbolizer;
use crate::trace::{Frame, ScriptId, Trace};

/// Aggregates samples into a [`Profile`]. All parts are interned by content.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use ebpf_profiler_core::profile::{Process, ProfileBuilder, Thread};
/// use ebpf_profiler_core::symbol::NoSymbols;
/// use ebpf_profiler_core::trace::{Frame, Stop, Trace};
///
/// let mut builder = ProfileBuilder::new(Duration::from_millis(10));
/// let process = builder.process(Process::new(7));
/// let thread = builder.thread(Thread::new(process, 7, "cat"));
/// let frames = [Frame::Kernel { address: 0xffffffff81000000 }];
/// let trace = Trace::new(frames.as_slice(), Stop::NoUserStack);
/// builder.add(thread, &trace, 1_000);
/// builder.add(thread, &trace, 2_000);
///
/// let profile = builder.finish(SystemTime::now(), Duration::from_secs(1), |_| None, &mut NoSymbols);
/// assert_eq!(profile.samples().len(), 1);
/// assert_eq!(profile.count(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ProfileBuilder {
    kinds: Vec<SampleKind>,
    boot_id: Box<str>,
    losses: Losses,
    processes: Interner<Process>,
    threads: Interner<Thread>,
    frames: Interner<Frame>,
    scripts: HashMap<ScriptId, Script>,
    /// `true` if [late names](ProfileBuilder::name_late) made frames equal others.
    has_late_names: bool,
    traces: TraceInterner,
    samples: SampleInterner,
    periods: Vec<SamplingPeriod>,
}

impl ProfileBuilder {
    /// Creates a builder for samples of CPU time that are `period` apart on each CPU.
    pub fn new(period: Duration) -> ProfileBuilder {
        ProfileBuilder::of_kinds([SampleKind::cpu(period)])
    }

    /// Creates a builder for samples of several kinds; at most 65,535.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use ebpf_profiler_core::profile::{Process, ProfileBuilder, SampleKind, Thread};
    /// use ebpf_profiler_core::{symbol::NoSymbols, trace::{Stop, Trace}};
    ///
    /// let kinds = [SampleKind::cpu(Duration::from_millis(10)), SampleKind::off_cpu()];
    /// let mut builder = ProfileBuilder::of_kinds(kinds);
    /// let process = builder.process(Process::new(7));
    /// let thread = builder.thread(Thread::new(process, 7, "cat"));
    /// let trace = Trace::new([].as_slice(), Stop::NoUserStack);
    /// builder.add_value(1, 2_500_000, None, thread, &trace, 1_000);
    ///
    /// let profile = builder.finish(SystemTime::now(), Duration::from_secs(1), |_| None, &mut NoSymbols);
    /// assert_eq!(profile.of_kind(1).total(), 2_500_000);
    /// ```
    pub fn of_kinds(kinds: impl IntoIterator<Item = SampleKind>) -> ProfileBuilder {
        let kinds = kinds.into_iter().take(u16::MAX.into()).collect();
        ProfileBuilder { kinds, ..ProfileBuilder::default() }
    }

    /// Interns a process and returns its number.
    pub fn process(&mut self, process: Process) -> ProcessId {
        ProcessId(self.processes.intern(process))
    }

    /// Interns a thread and returns its number.
    pub fn thread(&mut self, thread: Thread) -> ThreadId {
        ThreadId(self.threads.intern(thread))
    }

    /// Adds a sample of the first kind with value 1, of an unknown CPU, taken at `time` nanoseconds
    /// since 1970.
    pub fn add(&mut self, thread: ThreadId, trace: &Trace<'_>, time: u64) {
        self.add_value(0, 1, None, thread, trace, time);
    }

    /// Adds a sample of the first kind with value 1, of CPU `cpu`, taken at `time` nanoseconds
    /// since 1970.
    pub fn add_on_cpu(&mut self, cpu: u32, thread: ThreadId, trace: &Trace<'_>, time: u64) {
        self.add_value(0, 1, Some(cpu), thread, trace, time);
    }

    /// Adds a sample of kind number `kind` with a value in the kind's unit, taken at `time`
    /// nanoseconds since 1970.
    ///
    /// A sample of a kind that the builder does not have is counted as lost.
    pub fn add_value(
        &mut self,
        kind: usize,
        value: u64,
        cpu: Option<u32>,
        thread: ThreadId,
        trace: &Trace<'_>,
        time: u64,
    ) {
        if kind >= self.kinds.len() {
            return self.record_loss("of an unknown kind", 1);
        }
        let trace = self.trace(trace);
        self.add_interned((kind, value), cpu.unwrap_or(NO_CPU), (thread, trace), time);
    }

    /// Interns a trace and returns its number.
    pub(crate) fn trace(&mut self, trace: &Trace<'_>) -> TraceId {
        let hash = self.traces.hash(trace);
        if let Some(id) = self.traces.noted(hash, trace, &self.frames.items) {
            return id;
        }
        let frames = trace.frames.iter().map(|&frame| FrameId(self.frames.intern(frame)));
        let id = self.traces.intern(trace, frames);
        self.traces.note(hash, id);
        id
    }

    /// Returns the number of a trace; `None` if it is unknown.
    pub(crate) fn known_trace(&mut self, trace: &Trace<'_>) -> Option<TraceId> {
        let hash = self.traces.hash(trace);
        if let Some(id) = self.traces.noted(hash, trace, &self.frames.items) {
            return Some(id);
        }
        let frames = trace.frames.iter().map(|frame| self.frames.get(frame).map(FrameId));
        self.traces.find(trace, frames)
    }

    /// Returns the approximate memory of all different stacks in bytes.
    pub(crate) fn stack_bytes(&self) -> usize {
        /// Of a frame, in the list of all and in the table by content.
        const FRAME: usize = 2 * size_of::<Frame>() + 8;
        self.frames.items.len() * FRAME + self.traces.frame_count() * size_of::<FrameId>()
    }

    /// Adds a sample of an interned thread and trace; as [`add_value`](ProfileBuilder::add_value).
    pub(crate) fn add_interned(
        &mut self,
        (kind, value): (usize, u64),
        cpu: u32,
        (thread, trace): (ThreadId, TraceId),
        time: u64,
    ) {
        if kind >= self.kinds.len() {
            return self.record_loss("of an unknown kind", 1);
        }
        self.samples.add(kind as u16, thread, trace, Event { time, cpu, value });
    }

    /// Interns a thread and a trace of another builder, with the functions of scripts that it has.
    pub(crate) fn adopt(
        &mut self,
        from: &ProfileBuilder,
        (thread, trace): (ThreadId, TraceId),
    ) -> (ThreadId, TraceId) {
        let thread = from.threads.items[thread.0 as usize].clone();
        let process = self.process(from.processes.items[thread.process.0 as usize].clone());
        let thread = self.thread(Thread { process, ..thread });
        let (stored, frames) = from.traces.get(trace);
        let StoredTrace { stop, omitted, gap, .. } = *stored;
        let frames: Vec<Frame> = frames.iter().map(|id| from.frames.items[id.0 as usize]).collect();
        for frame in &frames {
            if let Frame::Script { function, .. } = frame
                && let Some(script) = from.scripts.get(function)
            {
                self.scripts.entry(*function).or_insert_with(|| script.clone());
            }
        }
        (thread, self.trace(&Trace { frames: frames.as_slice().into(), stop, omitted, gap }))
    }

    /// Returns the modules of all frames; some may come several times.
    pub(crate) fn modules(&self) -> impl Iterator<Item = ModuleId> + '_ {
        self.native_addresses().map(|(module, _)| module)
    }

    /// Returns module and address of all native frames.
    pub(crate) fn native_addresses(&self) -> impl Iterator<Item = (ModuleId, u64)> + '_ {
        self.frames.items.iter().filter_map(|frame| match *frame {
            Frame::Native { module, address, .. } => Some((module, address)),
            _ => None,
        })
    }

    /// Gives frames of scripts that were named after their walk the functions and lines that `name`
    /// returns.
    pub(crate) fn name_late(&mut self, name: impl Fn(ScriptId) -> Option<(ScriptId, u32)>) {
        for frame in &mut self.frames.items {
            if let Frame::Script { function, line, .. } = frame
                && let Some(late) = name(*function)
            {
                (*function, *line) = late;
                self.has_late_names = true;
            }
        }
    }

    /// Adds the functions of scripts that occur in traces, as far as `script` returns them.
    pub fn add_scripts(&mut self, script: impl Fn(ScriptId) -> Option<Script>) {
        for frame in &self.frames.items {
            if let &Frame::Script { function, .. } = frame
                && let Some(script) = script(function)
            {
                self.scripts.insert(function, script);
            }
        }
    }

    /// Counts events that never became samples.
    pub fn record_loss(&mut self, reason: &'static str, count: u64) {
        self.losses.add(reason, count);
    }

    /// Returns the events that were lost up to now.
    #[cfg(feature = "live")]
    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Sets the boot id of the kernel that was sampled.
    #[cfg(any(feature = "live", test))]
    pub(crate) fn set_boot_id(&mut self, boot_id: Box<str>) {
        self.boot_id = boot_id;
    }

    /// Sets the changes of sampling periods.
    #[cfg(any(feature = "live", test))]
    pub(crate) fn set_sampling_periods(&mut self, periods: Vec<SamplingPeriod>) {
        self.periods = periods;
    }

    /// Returns the number of events that were added.
    #[cfg(feature = "live")]
    pub(crate) fn count(&self) -> u64 {
        self.samples.count()
    }

    /// Returns `true` if there are neither samples nor losses.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.losses.is_empty()
    }

    /// Symbolizes all frames and returns the profile.
    ///
    /// `modules` returns the module for an id in the traces. The module ids of the profile are
    /// consecutive, and differ from those.
    pub fn finish(
        self,
        start: SystemTime,
        duration: Duration,
        modules: impl Fn(ModuleId) -> Option<Module>,
        symbolizer: &mut dyn Symbolizer,
    ) -> Profile {
        let (modules, frames) = number_modules(self.frames.items, modules);
        let (scripts, frames) = number_scripts(frames, self.scripts);
        let order = order(&frames);
        let naming = Naming::new(frames, &modules, &scripts);
        let (names, frames) = naming.run(&order, symbolizer);
        let profile = Profile::new(Data {
            start,
            duration,
            boot_id: self.boot_id,
            kinds: self.kinds,
            losses: self.losses.into(),
            modules,
            scripts,
            processes: self.processes.items,
            samples: self.samples.finish(&self.threads.items),
            periods: self.periods,
            threads: self.threads.items,
            names,
            frames,
            by_place: order.into_iter().map(|(.., frame)| FrameId(frame)).collect(),
            traces: self.traces.finish(),
        });
        // Frames that were named late may equal others.
        let merged = self.has_late_names.then(|| Profile::merge([&profile]).ok()).flatten();
        merged.unwrap_or(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbol::NoSymbols;
    use crate::trace::{Found, Stop};

    #[test]
    fn frames_that_were_named_late_equal_others() {
        let mut builder = ProfileBuilder::new(Duration::ZERO);
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread { process, ..Thread::default() });
        for (function, line) in [(1, 0), (2, 7), (3, 0)] {
            let frame = Frame::Script { function: ScriptId(function), line, found: Found::Exactly };
            let frames = [frame];
            builder.add(thread, &Trace::new(frames.as_slice(), Stop::Root), 0);
        }
        let named = Script::new("php", "work").with_file("a.php", 5);
        builder.name_late(|ScriptId(id)| (id != 2).then_some((ScriptId(2), if id == 1 { 7 } else { 8 })));
        builder.add_scripts(|id| (id == ScriptId(2)).then(|| named.clone()));
        let profile = builder.finish(SystemTime::UNIX_EPOCH, Duration::ZERO, |_| None, &mut NoSymbols);
        assert_eq!(profile.scripts(), [named]);
        let lines = |sample: crate::profile::Sample<'_>| {
            (sample.trace().frames().next().unwrap().symbols()[0].line, sample.count())
        };
        assert_eq!(profile.samples().map(lines).collect::<Vec<_>>(), [(7, 2), (8, 1)]);
    }

    #[test]
    fn frames_are_ordered_by_code() {
        let native = |module, address| {
            let module = ModuleId(module);
            Frame::Native { module, address, found: Found::Exactly }
        };
        let found = Found::Exactly;
        let script = |function, line| Frame::Script { function: ScriptId(function), line, found };
        let anonymous = Frame::Anonymous { address: 1, found: Found::Exactly };
        let kernel = Frame::Kernel { address: u64::MAX };
        let seen = [
            anonymous,
            native(7, 2),
            kernel,
            native(3, 1),
            script(5, 2),
            native(7, 1),
            script(4, 9),
            script(5, 1),
        ];
        let mut builder = ProfileBuilder::new(Duration::ZERO);
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread { process, ..Thread::default() });
        let trace = Trace { frames: seen.as_slice().into(), stop: Stop::Root, omitted: 0, gap: 0 };
        builder.add(thread, &trace, 0);
        let profile = builder.finish(SystemTime::UNIX_EPOCH, Duration::ZERO, |_| None, &mut NoSymbols);
        // Modules and scripts are renumbered in the order of first occurrence.
        let expected = [
            script(0, 1),
            script(0, 2),
            script(1, 9),
            kernel,
            native(0, 1),
            native(0, 2),
            native(1, 1),
            anonymous,
        ];
        assert_eq!(profile.frames_by_place().map(|frame| frame.frame()).collect::<Vec<_>>(), expected);
    }
}
