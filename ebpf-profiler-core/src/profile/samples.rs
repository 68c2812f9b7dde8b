//! Distinct samples with their timestamps.

use std::ops::Range;

use hashbrown::HashMap;

use super::{Thread, ThreadId, TraceId};

/// CPU of a sample whose CPU is unknown.
pub(super) const NO_CPU: u32 = u32::MAX;

/// All samples of a profile; those of a process are adjacent.
///
/// All timestamps are in one list in the order of the samples, so that a pass over a profile reads memory in order.
#[derive(Debug, Default)]
pub(super) struct Samples {
    items: Vec<StoredSample>,
    times: Vec<u64>,
    /// CPU of each timestamp, [`NO_CPU`] if unknown.
    cpus: Vec<u32>,
    /// Length of each wait in nanoseconds; empty in a profile of CPU time.
    waits: Vec<u64>,
}

/// A sample and the range of its timestamps.
#[derive(Clone, Debug)]
pub(super) struct StoredSample {
    pub(super) thread: ThreadId,
    pub(super) trace: TraceId,
    times: Range<usize>,
}

impl Samples {
    pub(super) fn iter(&self) -> std::slice::Iter<'_, StoredSample> {
        self.items.iter()
    }

    #[inline]
    pub(super) fn times(&self, sample: &StoredSample) -> &[u64] {
        &self.times[sample.times.clone()]
    }

    #[inline]
    pub(super) fn cpus(&self, sample: &StoredSample) -> &[u32] {
        &self.cpus[sample.times.clone()]
    }

    #[inline]
    pub(super) fn waits(&self, sample: &StoredSample) -> &[u64] {
        self.waits.get(sample.times.clone()).unwrap_or_default()
    }
}

/// Interner of samples by thread and trace.
#[derive(Debug, Default)]
pub(super) struct SampleInterner {
    numbers: HashMap<(ThreadId, TraceId), u32>,
    items: Vec<Seen>,
    /// Number of the sample and time of each event, in the order of arrival.
    ticks: Vec<(u32, u64)>,
    /// CPU of each event.
    cpus: Vec<u32>,
    /// Length of each wait; empty in a profile of CPU time.
    waits: Vec<u64>,
}

#[derive(Debug)]
struct Seen {
    thread: ThreadId,
    trace: TraceId,
    count: usize,
}

impl SampleInterner {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    #[cfg(feature = "live")]
    pub(super) fn count(&self) -> u64 {
        self.ticks.len() as u64
    }

    pub(super) fn add(&mut self, thread: ThreadId, trace: TraceId, time: u64, cpu: u32) {
        let next = self.items.len() as u32;
        let number = *self.numbers.entry((thread, trace)).or_insert(next);
        if number == next {
            self.items.push(Seen { thread, trace, count: 0 });
        }
        self.items[number as usize].count += 1;
        self.ticks.push((number, time));
        self.cpus.push(cpu);
    }

    /// Sets the length of the last wait, in nanoseconds. Called for all events or for none.
    pub(super) fn wait(&mut self, nanos: u64) {
        self.waits.push(nanos);
    }

    /// Groups the samples by process and the timestamps by sample.
    pub(super) fn finish(self, threads: &[Thread]) -> Samples {
        let mut order: Vec<u32> = (0..self.items.len() as u32).collect();
        order.sort_by_key(|&number| threads[self.items[number as usize].thread.0 as usize].process);
        let mut samples = Samples {
            items: Vec::with_capacity(order.len()),
            times: vec![0; self.ticks.len()],
            cpus: vec![NO_CPU; self.ticks.len()],
            waits: vec![0; self.waits.len()],
        };
        let mut next = vec![0; order.len()];
        let mut start = 0;
        for number in order {
            let Seen { thread, trace, count } = self.items[number as usize];
            samples.items.push(StoredSample { thread, trace, times: start..start + count });
            next[number as usize] = start;
            start += count;
        }
        for (index, (number, time)) in self.ticks.into_iter().enumerate() {
            let place = &mut next[number as usize];
            samples.times[*place] = time;
            samples.cpus[*place] = self.cpus[index];
            if let (Some(wait), Some(&nanos)) = (samples.waits.get_mut(*place), self.waits.get(index)) {
                *wait = nanos;
            }
            *place += 1;
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::super::ProcessId;
    use super::*;

    #[test]
    fn times_follow_their_samples() {
        let thread = |process| Thread { process: ProcessId(process), ..Thread::default() };
        let mut interner = SampleInterner::default();
        for (thread, trace, time) in [(0, 0, 1), (1, 0, 2), (0, 1, 3), (1, 0, 4), (0, 0, 5), (2, 0, 6)] {
            interner.add(ThreadId(thread), TraceId(trace), time, thread);
        }
        let samples = interner.finish(&[thread(1), thread(0), thread(1)]);
        let seen: Vec<_> =
            samples.iter().map(|it| (it.thread.0, it.trace.0, samples.times(it).to_vec())).collect();
        assert!(samples.iter().all(|it| samples.cpus(it).iter().all(|&cpu| cpu == it.thread.0)));
        assert_eq!(seen, [(1, 0, vec![2, 4]), (0, 0, vec![1, 5]), (0, 1, vec![3]), (2, 0, vec![6])]);
    }
}
