//! Samples that have not ended, over several profiles. See [`held`](ebpf_programs::abi::held).

use hashbrown::HashMap;

use super::threads::Threads;
use crate::profile::{ProfileBuilder, ThreadId, TraceId};

/// Time and CPU of the record of a sample.
pub(super) type Id = (u64, u32);

/// Maximum number of samples, above that of the kernel side: it forgets allocations that never
/// return.
const MAX_HELD_SAMPLES: usize = 1 << 18;

/// Number of samples that ended with their processes after which the kernel's map is swept.
const SWEEP_AFTER_SAMPLES: usize = 1 << 12;

/// Time after which it is swept in any case, in nanoseconds: samples that are dropped in user space
/// stay in it.
const SWEEP_INTERVAL: u64 = 30_000_000_000;

/// Time after which a sample that isn't known here can be removed from the kernel's map, in
/// nanoseconds: its record may be on its way.
const MIN_REMOVAL_AGE: u64 = 2_000_000_000;

/// Removes the samples from the kernel's map for which a function returns `false`, by the process,
/// time and CPU of their records.
pub(crate) type Sweep = Box<dyn FnMut(&dyn Fn(u32, u64, u32) -> bool) + Send>;

/// Samples that have not ended.
#[derive(Default)]
pub(super) struct HeldSamples {
    by_process: HashMap<u32, HashMap<Id, HeldSample>>,
    count: usize,
    /// Their threads and traces, without a sample.
    builder: ProfileBuilder,
    threads: Threads,
    /// Values of ends that came before their samples, by process: those of this batch and of the
    /// one before.
    early: [HashMap<(u32, Id), u64>; 2],
    /// Processes of which the first thread exited.
    exited: Vec<(u32, u64)>,
    sweep: Option<Sweep>,
    /// Samples that ended with their processes since the last sweep.
    dropped: usize,
    /// Time of the last sweep.
    swept: u64,
}

/// A sample that has not ended.
#[derive(Clone, Copy)]
pub(super) struct HeldSample {
    pub(super) event: u16,
    /// Value until its end.
    pub(super) value: u64,
    pub(super) at: (ThreadId, TraceId),
}

impl HeldSamples {
    #[cfg(feature = "live")]
    pub(super) fn set_sweep(&mut self, sweep: Sweep) {
        self.sweep = Some(sweep);
    }

    /// Returns the builder of threads and traces, and its threads.
    pub(super) fn interners(&mut self) -> (&mut ProfileBuilder, &mut Threads) {
        (&mut self.builder, &mut self.threads)
    }

    pub(super) fn builder(&self) -> &ProfileBuilder {
        &self.builder
    }

    /// Begins a sample. Returns `false` if there are too many.
    pub(super) fn begin(&mut self, pid: u32, id: Id, sample: HeldSample) -> bool {
        if self.count >= MAX_HELD_SAMPLES {
            return false;
        }
        let former = self.by_process.entry(pid).or_default().insert(id, sample);
        self.count += usize::from(former.is_none());
        true
    }

    /// Ends a sample. Returns `None` if it did not begin; then the end is kept for a sample that
    /// comes late.
    pub(super) fn end(&mut self, pid: u32, id: Id, value: u64) -> Option<HeldSample> {
        let ended = self.by_process.get_mut(&pid).and_then(|samples| samples.remove(&id));
        match ended {
            Some(_) => self.count -= 1,
            None if self.early[0].len() < MAX_HELD_SAMPLES => drop(self.early[0].insert((pid, id), value)),
            None => {}
        }
        ended
    }

    /// Returns the value of an end that came before its sample.
    pub(super) fn early_end(&mut self, pid: u32, id: Id) -> Option<u64> {
        if self.early.iter().all(HashMap::is_empty) {
            return None;
        }
        self.early.iter_mut().find_map(|ends| ends.remove(&(pid, id)))
    }

    /// Drops ends that came before the last batch, and sweeps the kernel's map if that is worth it.
    pub(super) fn end_batch(&mut self, now: u64) {
        self.early.swap(0, 1);
        self.early[0].clear();
        if self.dropped < SWEEP_AFTER_SAMPLES && now.saturating_sub(self.swept) < SWEEP_INTERVAL {
            return;
        }
        (self.dropped, self.swept) = (0, now);
        let by_process = &self.by_process;
        if let Some(sweep) = &mut self.sweep {
            sweep(&|pid, time, cpu| {
                let is_known = |samples: &HashMap<Id, HeldSample>| samples.contains_key(&(time, cpu));
                time.saturating_add(MIN_REMOVAL_AGE) > now || by_process.get(&pid).is_some_and(is_known)
            });
        }
    }

    /// Drops the samples that a process took before `time`: it executed another program, or is
    /// another one with the same id.
    pub(super) fn drop_before(&mut self, pid: u32, time: u64) {
        let Some(samples) = self.by_process.get_mut(&pid) else { return };
        let before = samples.len();
        samples.retain(|&(taken, _), _| taken >= time);
        let dropped = before - samples.len();
        if samples.is_empty() {
            self.by_process.remove(&pid);
        }
        self.count -= dropped;
        self.dropped += dropped;
    }

    /// Records that the first thread of a process exited. Others may run on.
    pub(super) fn exit(&mut self, pid: u32, time: u64) {
        if self.by_process.contains_key(&pid) {
            self.exited.push((pid, time));
        }
    }

    /// Drops the samples of processes that have exited, of which `has_memory` returns `false`.
    pub(super) fn drop_exited(&mut self, has_memory: impl Fn(u32) -> bool) {
        for (pid, time) in std::mem::take(&mut self.exited) {
            if has_memory(pid) {
                self.exited.push((pid, time));
            } else {
                self.drop_before(pid, time.saturating_add(1));
            }
        }
    }

    /// Drops all samples.
    pub(super) fn clear(&mut self) {
        self.dropped += self.count;
        let sweep = self.sweep.take();
        *self = HeldSamples { sweep, dropped: self.dropped, ..HeldSamples::default() };
    }

    /// Adds all samples with a value to a profile, at `time` since 1970.
    pub(super) fn show(&self, builder: &mut ProfileBuilder, time: u64) {
        let mut adopted = HashMap::new();
        for (&(_, cpu), sample) in self.by_process.values().flatten().filter(|(_, sample)| sample.value > 0) {
            let at = *adopted.entry(sample.at).or_insert_with(|| builder.adopt(&self.builder, sample.at));
            builder.add_interned((sample.event.into(), sample.value), cpu, at, time);
        }
    }

    /// Drops the threads and traces that no sample has.
    pub(super) fn compact(&mut self) {
        let former = std::mem::take(&mut self.builder);
        self.threads = Threads::default();
        let (mut adopted, builder) = (HashMap::new(), &mut self.builder);
        for sample in self.by_process.values_mut().flat_map(HashMap::values_mut) {
            sample.at = *adopted.entry(sample.at).or_insert_with(|| builder.adopt(&former, sample.at));
        }
        self.by_process.retain(|_, samples| !samples.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Process, Thread};
    use crate::trace::{Frame, Stop, Trace};

    fn sample(held: &mut HeldSamples, address: u64, value: u64) -> HeldSample {
        let (builder, _) = held.interners();
        let process = builder.process(Process::new(7));
        let thread = builder.thread(Thread::new(process, 7, "cat"));
        let frames = [Frame::Kernel { address }];
        let trace = builder.trace(&Trace::new(frames.as_slice(), Stop::Root));
        HeldSample { event: 0, value, at: (thread, trace) }
    }

    #[test]
    fn end_before_its_sample_is_kept_for_one_more_batch() {
        let mut held = HeldSamples::default();
        assert!(held.end(7, (1, 0), 5).is_none());
        assert!(held.end(7, (2, 0), 6).is_none());
        held.end_batch(10);
        assert_eq!((held.early_end(7, (1, 0)), held.early_end(8, (2, 0))), (Some(5), None));
        held.end_batch(20);
        assert_eq!(held.early_end(7, (2, 0)), None);
    }

    #[test]
    fn samples_of_processes_that_exit_or_execute_are_dropped() {
        let mut held = HeldSamples::default();
        for (pid, time) in [(7, 1), (7, 5), (8, 1), (9, 1)] {
            let sample = sample(&mut held, 1, 4);
            assert!(held.begin(pid, (time, 0), sample));
        }
        held.drop_before(7, 3);
        held.exit(8, 9);
        held.exit(9, 9);
        held.drop_exited(|pid| pid == 9);
        assert_eq!((held.count, held.by_process.len(), held.dropped), (2, 2, 2));
        held.drop_exited(|_| false);
        assert_eq!((held.count, held.exited.len()), (1, 0));
        assert!(held.end(7, (5, 0), 0).is_some());
        assert_eq!(held.count, 0);
    }

    #[test]
    fn compacted_samples_keep_their_traces() {
        let mut held = HeldSamples::default();
        for time in 0..10 {
            let sample = sample(&mut held, time, 4);
            assert!(held.begin(7, (time, 0), sample));
        }
        for time in 0..9 {
            held.end(7, (time, 0), 0);
        }
        held.compact();
        let (_, sample) = held.by_process[&7].iter().next().unwrap();
        assert_eq!(sample.at.1, TraceId(0));
        let mut shown = ProfileBuilder::of_kinds([crate::profile::SampleKind::off_cpu()]);
        held.show(&mut shown, 1);
        let profile = shown.finish(
            std::time::SystemTime::UNIX_EPOCH,
            std::time::Duration::ZERO,
            |_| None,
            &mut crate::symbol::NoSymbols,
        );
        assert_eq!((profile.total(), profile.frames().len()), (4, 1));
        assert_eq!(profile.frames().next().unwrap().frame(), Frame::Kernel { address: 9 });
    }
}
