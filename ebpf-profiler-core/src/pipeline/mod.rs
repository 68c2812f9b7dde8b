//! From a batch of events to samples in a profile: the one place that sees every stage.
//!
//! ```text
//!   Batch ─┬─ life ──► Registry ──► tables, mappings ──► kernel side
//!          └─ tick ─┬─ walked ─────────────────────┐
//!                   ├─ raw ──► Walker (same code) ─┴──► frames ──► ProfileBuilder, or held until their end
//!                   └─ end ──► held samples ──► ProfileBuilder
//! ```
//!
//! Events are taken in the order of time. A raw sample is unwound here, with the tables that its stack needs; they are built
//! and published then. That of a large file is compiled by another thread, and the sample waits for it.

mod awaiting;

mod copied;

mod exec;

mod held;

mod late;

#[cfg(feature = "live")]
mod left;

mod owned;

mod pending;

mod raw;

mod stacks;

mod threads;

#[cfg(feature = "live")]
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ebpf_programs::abi::reason::Counter;
use ebpf_programs::abi::registers::Registers;

use self::awaiting::Awaiting;
use self::copied::CopiedSets;
use self::exec::Execs;
use self::held::{HeldSample, HeldSamples};
use self::late::Postponed;
pub(crate) use self::late::Urgency;
#[cfg(feature = "live")]
pub(crate) use self::left::LeftModule;
pub use self::pending::PendingProfile;
use self::stacks::StackShares;
#[cfg(feature = "live")]
use self::threads::Seen;
use self::threads::{LabelSource, Threads};
use crate::language::Splice;
#[cfg(feature = "live")]
use crate::profile::Labels;
use crate::profile::{ProfileBuilder, SampleKind};
use crate::registry::{Registry, RegistryStats};
use crate::sample::{Batch, Body, Event, Life, LifeEvent, TickRecord};
use crate::trace::{Found, Frame, Stop, Trace, Walker};

/// Interval at which unused tables are freed, in nanoseconds.
const TABLE_GC_INTERVAL: u64 = 10_000_000_000;

/// Turns batches into profiles.
pub struct Pipeline {
    registry: Registry,
    builder: ProfileBuilder,
    threads: Threads,
    stacks: StackShares,
    labels: Option<LabelSource>,
    copied: CopiedSets,
    held: HeldSamples,
    walker: Walker,
    splice: Splice,
    frames: Vec<Frame>,
    clock: Clock,
    period: Duration,
    kinds: Vec<SampleKind>,
    /// The time of the latest event.
    now: u64,
    /// Time when unused tables were last freed.
    tidied: u64,
    /// Time when files that no process maps any more were last taken.
    #[cfg(feature = "live")]
    looked_for_left: u64,
    since: SystemTime,
    execs: Execs,
    awaiting: Awaiting,
    stats: PipelineStats,
}

/// Counters of the samples of a profiler, from its start: walked, named, dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PipelineStats {
    /// Samples in profiles.
    pub samples: u64,
    /// Of those, the number with whole stacks.
    pub whole: u64,
    /// Of all samples, the number with a guessed frame: found without unwind data.
    pub guessed: u64,
    /// Of the others, the number with a frame that was found by a derived rule. All others are exact.
    pub derived: u64,
    /// Of all samples, the number that was unwound in user space.
    pub raw: u64,
    /// Samples of filtered processes that arrived before the kernel side filtered them.
    pub unwanted: u64,
    /// Records that could not be decoded.
    pub malformed: u64,
    /// Samples of which only the innermost function is in a profile, because this program was behind: it got too little CPU time
    /// to unwind them.
    pub late: u64,
    /// Samples without the labels that their thread had. Of this program: because its threads changed theirs too often, or it was
    /// behind. Of [others](crate::live::Builder::process_labels): because the process was not known yet, its memory was not
    /// readable or its labels not plausible. Of both: because the profile has too many combinations of threads and labels.
    pub unlabelled: u64,
    /// Samples of which labels of another program are left out because there are too many, or cut because they are too long.
    pub cut_labels: u64,
    /// Life events lost because the kernel's buffer was full.
    pub life_lost: u64,
    /// Counters of the registry.
    pub registry: RegistryStats,
}

/// The offset between `CLOCK_MONOTONIC` and the time of day.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Added (wrapping) to `CLOCK_MONOTONIC` it gives nanoseconds since 1970.
    pub offset: u64,
}

impl Pipeline {
    /// Returns an empty pipeline for samples of CPU time. `period` is the time between two samples of a CPU.
    pub fn new(registry: Registry, clock: Clock, period: Duration) -> Pipeline {
        Pipeline {
            registry,
            builder: ProfileBuilder::new(period),
            threads: Threads::default(),
            stacks: StackShares::default(),
            labels: None,
            copied: CopiedSets::default(),
            held: HeldSamples::default(),
            walker: Walker::default(),
            splice: Splice::default(),
            frames: Vec::new(),
            clock,
            period,
            kinds: vec![SampleKind::cpu(period)],
            now: 0,
            tidied: 0,
            #[cfg(feature = "live")]
            looked_for_left: 0,
            since: SystemTime::now(),
            execs: Execs::default(),
            awaiting: Awaiting::default(),
            stats: PipelineStats::default(),
        }
    }

    /// Returns the registry of processes and files.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Sets the kinds of samples; their numbers are those of the records. Called before the first sample.
    pub fn set_kinds(&mut self, kinds: Vec<SampleKind>) {
        self.kinds = kinds;
        self.builder = ProfileBuilder::of_kinds(self.kinds.iter().cloned());
    }

    /// Calls `seen` with the process of each new thread of a profile, while it is made.
    #[cfg(feature = "live")]
    pub(crate) fn set_seen(&mut self, seen: Arc<Seen>) {
        self.threads.set_seen(seen);
    }

    /// Sets the source of the labels of a process's threads.
    #[cfg(feature = "live")]
    pub(crate) fn set_labels(&mut self, pid: u32, labels_at: fn(u32, u64) -> Option<Labels>) {
        self.labels = Some(LabelSource { pid, labels_at });
    }

    /// Sets the function that removes samples from the kernel's map of those that have not ended.
    #[cfg(feature = "live")]
    pub(crate) fn set_sweep(&mut self, sweep: held::Sweep) {
        self.held.set_sweep(sweep);
    }

    /// Drops the samples that have not ended, as sampling was interrupted.
    pub(crate) fn drop_held(&mut self) {
        self.held.clear();
    }

    /// Sets the clock for later samples, after the time of day was changed.
    ///
    /// Called between two profiles.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Sets the time between two samples of a CPU, for the current profile and later ones.
    ///
    /// Returns `false`, and changes nothing, if the current profile already has samples of another period.
    pub fn set_period(&mut self, period: Duration) -> bool {
        if period == self.period {
            return true;
        }
        if !self.builder.is_empty() {
            return false;
        }
        self.period = period;
        for kind in self.kinds.iter_mut().filter(|kind| kind.is_cpu()) {
            *kind = kind.with_period(period);
        }
        self.builder = ProfileBuilder::of_kinds(self.kinds.iter().cloned());
        true
    }

    /// Takes the events of `batch` in the order of time.
    pub fn take(&mut self, batch: &mut Batch) {
        self.take_by(batch, &|| Urgency::None);
    }

    /// Takes the events of `batch` as [`urgent`](Urgency) as they are.
    pub(crate) fn take_by(&mut self, batch: &mut Batch, urgency: &dyn Fn() -> Urgency) {
        self.take_awaiting();
        self.execs.read(batch);
        self.describe_early(batch);
        for held in self.execs.take_held() {
            self.tick(&held.record());
        }
        let mut postponed = Postponed::default();
        batch.in_order(|event| match event {
            Event::Life(event) => self.life(event),
            Event::Tick(Ok(tick)) if self.execs.hold(&tick) => {}
            Event::Tick(Ok(tick)) => match urgency() {
                Urgency::None => self.tick(&tick),
                Urgency::Ending if self.can_wait(&tick) => postponed.add(tick),
                Urgency::Ending => self.tick(&tick),
                Urgency::Over => self.late(&tick),
            },
            Event::Tick(Err(_)) => {
                self.stats.malformed += 1;
                self.builder.record_loss("in records that could not be decoded", 1);
            }
        });
        for tick in postponed.in_order() {
            if urgency() == Urgency::Over { self.late(&tick) } else { self.tick(&tick) }
        }
        self.registry.end_early();
        self.held.end_batch(self.now);
        self.registry.publish_changed(self.now);
        self.registry.expire(self.now);
        if self.now.saturating_sub(self.tidied) > TABLE_GC_INTERVAL {
            self.tidied = self.now;
            self.registry.free_unused(self.now);
        }
    }

    /// Reads what is known of the processes with samples while they run.
    fn describe_early(&mut self, batch: &mut Batch) {
        if self.registry.is_over() {
            return;
        }
        // Most samples of a CPU are of the process of the one before.
        let mut pids: Vec<u32> = batch.pids().collect();
        pids.dedup();
        for pid in pids {
            self.registry.describe_early(pid, self.execs.concern(pid), || batch.take_description(pid));
        }
    }

    /// Takes the samples collected since the start or the previous call.
    pub fn finish(&mut self) -> PendingProfile {
        self.take_awaiting();
        self.unwind_awaiting(|_| true);
        for held in self.execs.take_held() {
            self.tick(&held.record());
        }
        let now = SystemTime::now();
        let start = std::mem::replace(&mut self.since, now);
        self.show_held(start);
        self.threads = self.threads.next();
        self.stacks = StackShares::default();
        let next = ProfileBuilder::of_kinds(self.kinds.iter().cloned());
        let mut builder = std::mem::replace(&mut self.builder, next);
        for builder in [&mut builder, self.held.interners().0] {
            builder.name_late(|id| self.registry.late_script(id));
            builder.add_scripts(|id| self.registry.script(id).cloned());
        }
        self.registry.limit_scripts();
        let modules = self.registry.take_modules();
        self.held.compact();
        self.registry.keep_modules(self.held.builder().modules());
        PendingProfile { builder, modules, start, duration: now.duration_since(start).unwrap_or_default() }
    }

    /// Returns the counters.
    pub fn stats(&self) -> PipelineStats {
        PipelineStats { registry: self.registry.stats(), ..self.stats.clone() }
    }

    fn life(&mut self, event: &LifeEvent) {
        self.now = self.now.max(event.time);
        if let Life::Lost { count } = event.life {
            self.stats.life_lost += count;
        }
        self.end_awaiting(event);
        if matches!(event.life, Life::Executed | Life::Exited) {
            self.threads.remove(event.pid);
            self.held.interners().1.remove(event.pid);
        }
        match event.life {
            Life::Executed | Life::Forked { .. } => self.held.drop_before(event.pid, event.time),
            Life::Exited => self.held.exit(event.pid, event.time),
            _ => {}
        }
        self.registry.apply(event);
    }

    fn tick(&mut self, tick: &TickRecord<'_>) {
        self.now = self.now.max(tick.time);
        if let Body::End { time, cpu } = tick.body {
            return self.end((time, cpu), tick);
        }
        if !self.registry.passes_filter(tick.pid) {
            self.stats.unwanted += 1;
            return;
        }
        self.frames.clear();
        self.kernel_frames(tick.kernel);
        match &tick.body {
            Body::Walked { leaf, root, omitted } => self.walked(tick, leaf, root, *omitted),
            Body::Raw { registers, calls, stack } => self.raw(tick, registers, calls, stack),
            Body::End { .. } => {}
        }
    }

    /// Adds a sample whose stack the kernel side unwound.
    fn walked(&mut self, tick: &TickRecord<'_>, leaf: &[u64], root: &[&[u64]], omitted: u32) {
        if tick.stop == Stop::NoUserStack {
            return self.add(tick, Stop::NoUserStack, None);
        }
        if self.execs.is_before_exec(tick) {
            return self.add(tick, Stop::Exec, None);
        }
        if tick.stop == Stop::Late {
            if !self.registry.is_over() {
                // Publishes an unknown process, so that the next sample can be walked.
                let _ = self.registry.publish(tick.pid, tick.time);
            }
            return self.late(tick);
        }
        if let Err(stop) = self.registry.check_walk(tick) {
            let is_exec = leaf.len() <= 1 && self.detect_exec(tick, tick.stop) == Stop::Exec;
            return self.add(tick, if is_exec { Stop::Exec } else { stop }, None);
        }
        if omitted > 0 {
            return self.with_gap(tick, leaf, root, omitted);
        }
        self.splice.clear();
        self.splice.extend(leaf);
        self.user_frames(tick, matches!(tick.stop, Stop::Root | Stop::Coroutine));
        let exceeds = tick.stop == Stop::Unmapped && self.registry.processes().exceeds(tick.pid);
        let stop = if exceeds { Stop::TooManyMappings } else { tick.stop };
        let stop = self.detect_exec(tick, stop);
        self.add(tick, stop, None);
    }

    /// Adds a sample whose middle frames are dropped.
    fn with_gap(&mut self, tick: &TickRecord<'_>, leaf: &[u64], root: &[&[u64]], omitted: u32) {
        self.splice.clear();
        self.splice.extend(leaf);
        let omitted = omitted + self.splice.trim();
        self.user_frames(tick, false);
        let gap = self.frames.len() as u32;
        self.splice.clear();
        root.iter().for_each(|part| self.splice.extend(part));
        self.user_frames(tick, false);
        self.add(tick, tick.stop, Some((omitted, gap)));
    }

    /// Unwinds a raw sample and adds it.
    fn raw(&mut self, tick: &TickRecord<'_>, registers: &Registers, calls: &[u64], stack: &[u64]) {
        let stop = raw::walk(&mut self.walker, &mut self.registry, tick, registers, stack);
        if stop == Stop::Pending && self.await_table(tick, self.walker.address()) {
            return;
        }
        self.stats.raw += 1;
        let is_exec = stop == Stop::NoUserStack
            && (self.execs.is_before_exec(tick)
                || self.registry.processes().is_after_exec(tick.pid, tick.time));
        let stop = if is_exec { Stop::Exec } else { stop };
        self.splice.clear();
        let registry = &self.registry;
        let runs_them = |address| registry.processes().is_of_first_interpreter(tick.pid, address);
        self.splice.extend_with(self.walker.frames(), calls, runs_them);
        self.user_frames(tick, matches!(stop, Stop::Root | Stop::Coroutine));
        let stop = self.detect_exec(tick, stop);
        self.add(tick, stop, None);
    }

    /// Drops the frame of the former program from a sample within `execve`, after the exec event. Returns the stop reason.
    fn detect_exec(&mut self, tick: &TickRecord<'_>, stop: Stop) -> Stop {
        let user = self.frames.get(tick.kernel.len()..).unwrap_or_default();
        let is_gone = matches!(stop, Stop::Unreadable | Stop::Unmapped)
            && !tick.kernel.is_empty()
            && matches!(user, [] | [Frame::Anonymous { .. }])
            && self.registry.processes().is_after_exec(tick.pid, tick.time);
        if !is_gone {
            return stop;
        }
        self.frames.truncate(tick.kernel.len());
        Stop::Exec
    }

    fn kernel_frames(&mut self, addresses: &[u64]) {
        // All but the first are return addresses.
        let behind = |(index, &address): (usize, &u64)| address.wrapping_sub(u64::from(index > 0));
        let frames = addresses.iter().enumerate().map(behind);
        self.frames.extend(frames.map(|address| Frame::Kernel { address }));
    }

    /// Appends the frames of the collected words.
    fn user_frames(&mut self, tick: &TickRecord<'_>, is_whole: bool) {
        self.registry.frames(tick.pid, self.splice.run(is_whole), tick.time, &mut self.frames);
        if let Some(Frame::Native { found: found @ (Found::Exactly | Found::Derived), .. }) =
            self.frames.last_mut().filter(|_| is_whole)
        {
            *found = Found::Uncalled;
        }
    }

    /// Adds the frames as a sample. `left_out` is the number of dropped frames and their position.
    fn add(&mut self, tick: &TickRecord<'_>, stop: Stop, left_out: Option<(u32, u32)>) {
        let (omitted, gap) = left_out.unwrap_or_default();
        if stop == Stop::Implausible {
            self.registry.count_end(self.frames.last());
        }
        let has = |found| self.frames.iter().any(|frame| frame.found() == Some(found));
        let (is_guessed, is_derived) = (has(Found::Guessed), has(Found::Derived));
        self.stats.guessed += u64::from(is_guessed);
        self.stats.derived += u64::from(is_derived && !is_guessed);
        let trace = Trace { frames: (&self.frames).into(), stop, omitted, gap };
        self.stats.samples += 1;
        let early = if tick.is_held { self.held.early_end(tick.pid, (tick.time, tick.cpu)) } else { None };
        let (builder, threads) = match (tick.is_held, early) {
            (true, None) => self.held.interners(),
            (true, Some(0)) => return,
            _ => (&mut self.builder, &mut self.threads),
        };
        let labels = match self.labels.filter(|it| it.pid == tick.pid && threads.has_room()) {
            Some(source) => (source.labels_at)(tick.tid, tick.time),
            None => self.copied.labels(tick, threads.has_room(), &mut self.registry, &mut self.stats),
        };
        self.stats.unlabelled += u64::from(labels.is_none());
        let thread = threads.number(builder, &mut self.registry, labels.unwrap_or_default(), tick);
        let (number, is_cut) =
            self.stacks.trace(builder, self.registry.processes().limits(), (tick.pid, tick.cpu), &trace);
        self.stats.whole += u64::from(trace.is_whole() && !is_cut);
        let at = (thread, number);
        if !tick.is_held || early.is_some() {
            let time = tick.time.wrapping_add(self.clock.offset);
            let sample = (tick.event.into(), early.unwrap_or(tick.value));
            return self.builder.add_interned(sample, tick.cpu, at, time);
        }
        let sample = HeldSample { event: tick.event, value: tick.value, at };
        if !self.held.begin(tick.pid, (tick.time, tick.cpu), sample) {
            self.builder.record_loss(Counter::Unheld.text(), 1);
        }
    }

    /// Ends a sample that was held.
    fn end(&mut self, id: (u64, u32), tick: &TickRecord<'_>) {
        let Some(HeldSample { event, at, .. }) = self.held.end(tick.pid, id, tick.value) else { return };
        if tick.value > 0 {
            let at = self.builder.adopt(self.held.builder(), at);
            let time = tick.time.wrapping_add(self.clock.offset);
            self.builder.add_interned((event.into(), tick.value), id.1, at, time);
        }
    }

    /// Adds the samples that have not ended to the profile that began at `start`.
    fn show_held(&mut self, start: SystemTime) {
        self.held.drop_exited(|pid| self.registry.has_memory(pid));
        let start = start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let now = self.now.wrapping_add(self.clock.offset);
        self.held.show(&mut self.builder, now.max(start));
    }
}

#[cfg(test)]
mod tests;
