//! Several profiles as one.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use hashbrown::HashMap;

use super::interner::Interner;
use super::names::Namer;
use super::naming::order;
use super::samples::SampleInterner;
use super::traces::TraceInterner;
use super::{
    Data, FrameId, Losses, NamedFrame, Process, ProcessId, Profile, SampleKind, SamplingPeriod, Thread,
    ThreadId, TraceId,
};
use crate::language::Script;
use crate::process::{Module, ModuleId};
use crate::symbol::Symbol;
use crate::trace::{Frame, ScriptId, Trace};

/// An error while merging profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// There is no profile to merge.
    Empty,
    /// One has another period.
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
    /// Merges profiles by content: processes, threads, modules, frames with their names, stacks and samples that are
    /// equal become one.
    ///
    /// Modules are equal if path and build id are, frames if address and names are. The result spans all profiles, from the earliest start to the latest
    /// end. Losses add up.
    ///
    /// # Errors
    ///
    /// Fails if there is no profile, or if period or kinds of samples differ.
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
        let mut profiles = profiles.into_iter();
        let first = profiles.next().ok_or(MergeError::Empty)?;
        let mut merger = Merger::default();
        let (mut start, mut end) = (first.start(), first.start() + first.duration());
        merger.add(first);
        for profile in profiles {
            let kinds = |profile: &Profile| -> Vec<SampleKind> {
                profile.kinds().iter().map(|kind| kind.with_period(Duration::ZERO)).collect()
            };
            if kinds(profile) != kinds(first) {
                return Err(MergeError::Kind);
            }
            if profile.period() != first.period() {
                return Err(MergeError::Period { first: first.period(), other: profile.period() });
            }
            start = start.min(profile.start());
            end = end.max(profile.start() + profile.duration());
            merger.add(profile);
        }
        let duration = end.duration_since(start).unwrap_or_default();
        Ok(merger.finish(|data| Data { start, duration, kinds: first.kinds().to_vec(), ..data }))
    }
}

/// Interners of a merged profile.
#[derive(Default)]
struct Merger {
    losses: Losses,
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
    fn add(&mut self, profile: &Profile) {
        let (data, first) = (&*profile.data, profile.selected.start);
        self.periods.extend(profile.sampling_periods());
        self.losses.add_all(&data.losses);
        let modules: Vec<ModuleId> = data.modules.iter().map(|module| self.module(module)).collect();
        let scripts: Vec<ScriptId> = data.scripts.iter().map(|script| self.script(script)).collect();
        let processes: Vec<ProcessId> =
            data.processes.iter().map(|process| ProcessId(self.processes.intern(process.clone()))).collect();
        let threads: Vec<ThreadId> = data
            .threads
            .iter()
            .map(|thread| {
                let process = processes[thread.process.0 as usize];
                ThreadId(self.threads.intern(Thread { process, ..thread.clone() }))
            })
            .collect();
        let frames: Vec<FrameId> = data
            .frames
            .iter()
            .map(|named| {
                let frame = match named.frame {
                    Frame::Native { module, address, found } => {
                        Frame::Native { module: modules[module.0 as usize], address, found }
                    }
                    Frame::Script { function, line, found } => {
                        Frame::Script { function: scripts[function.0 as usize], line, found }
                    }
                    frame => frame,
                };
                let symbols = data.names.symbols(&named.symbols).to_vec();
                FrameId(self.frames.intern(NamedContent {
                    frame,
                    symbols,
                    start: named.start,
                    is_doubtful: named.is_doubtful,
                }))
            })
            .collect();
        let traces: Vec<TraceId> = (0..data.traces.len())
            .map(|index| {
                let stored = data.traces.get(TraceId(index as u32));
                let trace = Trace {
                    frames: [].as_slice().into(),
                    stop: stored.stop,
                    omitted: stored.omitted,
                    gap: stored.gap,
                };
                let frames = data.traces.frames(stored.stack).iter().map(|frame| frames[frame.0 as usize]);
                self.traces.intern(&trace, frames)
            })
            .collect();
        for sample in data.samples.of_kinds(&profile.selected) {
            let (thread, trace) = (threads[sample.thread.0 as usize], traces[sample.trace.0 as usize]);
            for event in data.samples.events(sample) {
                self.samples.add(sample.kind - first, thread, trace, event);
            }
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

    fn finish(mut self, complete: impl FnOnce(Data) -> Data) -> Profile {
        self.periods.sort_by_key(|period| period.since);
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
        Profile::new(complete(Data {
            start: std::time::SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            kinds: Vec::new(),
            losses: self.losses,
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
        }))
    }
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeError::Empty => f.write_str("there is no profile to merge"),
            MergeError::Period { first, other } => write!(
                f,
                "cannot merge profiles with periods of {first:?} and {other:?}; merge those of one frequency"
            ),
            MergeError::Kind => f.write_str("cannot merge profiles with different kinds of samples; merge each kind alone: Profile::of_kind"),
        }
    }
}

impl std::error::Error for MergeError {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sink::folded;
    use crate::testing;

    fn lines(profile: &Profile) -> Vec<String> {
        let mut bytes = Vec::new();
        folded::write(profile, &mut bytes).unwrap();
        let mut lines: Vec<String> = String::from_utf8(bytes).unwrap().lines().map(Into::into).collect();
        lines.sort();
        lines
    }

    #[test]
    fn equal_stacks_become_one_whatever_their_numbers() {
        let first = "cat;main;libc.so.6`read;sys_read_[k] 3\ncat;main 1\nls;main;helper_[i];deep_[j] 2";
        let second = "ls;main;helper_[i];deep_[j] 5\ncat;[truncated: stack not readable];f 1\ncat;main 2";
        let both = format!("{first}\n{second}");
        let (first, second) = (testing::profile(first), testing::profile(second));
        // The made-up pids depend on the order of the processes.
        let merged = Profile::merge([&first, &second]).unwrap();
        assert_eq!(merged.count(), 14);
        let sum = |profile: &Profile| {
            let mut sums = BTreeMap::<String, u64>::new();
            for line in lines(profile) {
                let (stack, count) = line.rsplit_once(' ').unwrap();
                *sums.entry(stack.to_owned()).or_default() += count.parse::<u64>().unwrap();
            }
            sums
        };
        assert_eq!(sum(&merged), sum(&testing::profile(&both)));
    }

    #[test]
    fn profile_merged_with_itself_has_twice_the_counts_and_no_more_parts() {
        let profile = testing::profile("cat;main;libc.so.6`read;sys_read_[k] 3\ncat;main;x::y_[i] 1");
        let merged = Profile::merge([&profile, &profile.clone()]).unwrap();
        let parts = |it: &Profile| {
            let names: Vec<String> = it.frames_by_place().map(|frame| frame.to_string()).collect();
            (
                it.modules().len(),
                it.threads().len(),
                it.stacks(),
                it.samples().len(),
                it.functions().len(),
                names,
            )
        };
        assert_eq!(parts(&merged), parts(&profile));
        assert_eq!(merged.count(), 2 * profile.count());
        assert_eq!((merged.start(), merged.duration()), (profile.start(), profile.duration()));
    }

    #[test]
    fn other_periods_are_rejected() {
        let profile = testing::profile("cat;main 1");
        let other = super::super::ProfileBuilder::new(Duration::from_millis(50));
        let other = other.finish(profile.start(), Duration::ZERO, |_| None, &mut crate::symbol::NoSymbols);
        let error = Profile::merge([&profile, &other]).unwrap_err();
        assert_eq!(error.to_string().matches("50ms").count(), 1);
        assert_eq!(Profile::merge([]).unwrap_err(), MergeError::Empty);
    }
}
