//! Distinct samples with their timestamps.

use std::ops::Range;

use hashbrown::HashMap;

use super::{Thread, ThreadId, TraceId};

/// CPU of a sample whose CPU is unknown.
pub(super) const NO_CPU: u32 = u32::MAX;

/// All samples of a profile, by kind; within a kind those of a process are adjacent.
///
/// All timestamps are in one list in the order of the samples, so that a pass over a profile reads
/// memory in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    items: Vec<StoredSample>,
    times: Vec<u64>,
    /// CPU of each timestamp, [`NO_CPU`] if unknown.
    cpus: Vec<u32>,
    /// Value of each timestamp; empty if all are 1.
    values: Vec<u64>,
}

/// A sample and the range of its timestamps.
#[derive(Clone, Debug)]
pub(super) struct StoredSample {
    pub(super) kind: u16,
    pub(super) thread: ThreadId,
    pub(super) trace: TraceId,
    times: Range<usize>,
}

/// One event of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// Nanoseconds since 1970.
    pub(super) time: u64,
    pub(super) cpu: u32,
    pub(super) value: u64,
}

impl Samples {
    /// Returns the samples of the given kinds.
    pub(super) fn of_kinds(&self, kinds: &Range<u16>) -> std::slice::Iter<'_, StoredSample> {
        let at = |kind: u16| self.items.partition_point(|sample| sample.kind < kind);
        self.items[at(kinds.start)..at(kinds.end)].iter()
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
    pub(super) fn values(&self, sample: &StoredSample) -> &[u64] {
        self.values.get(sample.times.clone()).unwrap_or_default()
    }

    /// Returns the events of a sample.
    pub(super) fn events(&self, sample: &StoredSample) -> impl Iterator<Item = Event> + '_ {
        let values = self.values(sample);
        let events = self.times(sample).iter().zip(self.cpus(sample)).enumerate();
        events.map(move |(index, (&time, &cpu))| Event {
            time,
            cpu,
            value: values.get(index).copied().unwrap_or(1),
        })
    }
}

/// Interner of samples by kind, thread and trace.
#[derive(Clone, Debug, Default)]
pub(super) struct SampleInterner {
    numbers: HashMap<(u16, ThreadId, TraceId), u32>,
    items: Vec<Seen>,
    /// Number of the sample and time of each event, in the order of arrival.
    ticks: Vec<(u32, u64)>,
    /// CPU of each event.
    cpus: Vec<u32>,
    /// Value of each event; empty as long as all are 1.
    values: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Seen {
    kind: u16,
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

    pub(super) fn add(&mut self, kind: u16, thread: ThreadId, trace: TraceId, event: Event) {
        let number = self.number(kind, thread, trace);
        self.add_event(number, event);
    }

    /// Adds all events of a sample.
    pub(super) fn add_all(
        &mut self,
        kind: u16,
        thread: ThreadId,
        trace: TraceId,
        events: impl Iterator<Item = Event>,
    ) {
        let number = self.number(kind, thread, trace);
        events.for_each(|event| self.add_event(number, event));
    }

    fn number(&mut self, kind: u16, thread: ThreadId, trace: TraceId) -> u32 {
        let next = self.items.len() as u32;
        let number = *self.numbers.entry((kind, thread, trace)).or_insert(next);
        if number == next {
            self.items.push(Seen { kind, thread, trace, count: 0 });
        }
        number
    }

    fn add_event(&mut self, number: u32, event: Event) {
        self.items[number as usize].count += 1;
        if event.value != 1 && self.values.is_empty() {
            self.values.resize(self.ticks.len(), 1);
        }
        if event.value != 1 || !self.values.is_empty() {
            self.values.push(event.value);
        }
        self.ticks.push((number, event.time));
        self.cpus.push(event.cpu);
    }

    /// Groups the samples by kind and process and the timestamps by sample.
    pub(super) fn finish(self, threads: &[Thread]) -> Samples {
        let mut order: Vec<u32> = (0..self.items.len() as u32).collect();
        order.sort_by_key(|&number| {
            let seen = &self.items[number as usize];
            (seen.kind, threads[seen.thread.0 as usize].process)
        });
        let mut samples = Samples {
            items: Vec::with_capacity(order.len()),
            times: vec![0; self.ticks.len()],
            cpus: vec![NO_CPU; self.ticks.len()],
            values: vec![1; self.values.len()],
        };
        let mut next = vec![0; order.len()];
        let mut start = 0;
        for number in order {
            let Seen { kind, thread, trace, count } = self.items[number as usize];
            samples.items.push(StoredSample { kind, thread, trace, times: start..start + count });
            next[number as usize] = start;
            start += count;
        }
        for (index, (number, time)) in self.ticks.into_iter().enumerate() {
            let place = &mut next[number as usize];
            samples.times[*place] = time;
            samples.cpus[*place] = self.cpus[index];
            if let (Some(to), Some(&value)) = (samples.values.get_mut(*place), self.values.get(index)) {
                *to = value;
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
            let event = Event { time, cpu: thread, value: 1 };
            interner.add(0, ThreadId(thread), TraceId(trace), event);
        }
        let samples = interner.finish(&[thread(1), thread(0), thread(1)]);
        let all = || samples.of_kinds(&(0..1));
        let seen: Vec<_> = all().map(|it| (it.thread.0, it.trace.0, samples.times(it).to_vec())).collect();
        assert!(all().all(|it| samples.cpus(it).iter().all(|&cpu| cpu == it.thread.0)));
        assert!(all().all(|it| samples.values(it).is_empty()));
        assert_eq!(seen, [(1, 0, vec![2, 4]), (0, 0, vec![1, 5]), (0, 1, vec![3]), (2, 0, vec![6])]);
    }

    #[test]
    fn samples_of_a_kind_are_adjacent_and_keep_their_values() {
        let mut interner = SampleInterner::default();
        for (kind, time, value) in [(0, 1, 1), (1, 2, 500), (0, 3, 1), (1, 4, 700), (2, 5, 9)] {
            interner.add(kind, ThreadId(0), TraceId(0), Event { time, cpu: NO_CPU, value });
        }
        let samples = interner.finish(&[Thread::default()]);
        let of = |kinds: Range<u16>| {
            let each = samples.of_kinds(&kinds).flat_map(|it| samples.events(it));
            each.map(|event| (event.time, event.value)).collect::<Vec<_>>()
        };
        assert_eq!(of(0..1), [(1, 1), (3, 1)]);
        assert_eq!(of(1..2), [(2, 500), (4, 700)]);
        assert_eq!(of(1..3), [(2, 500), (4, 700), (5, 9)]);
        assert_eq!(of(3..4), []);
    }
}
