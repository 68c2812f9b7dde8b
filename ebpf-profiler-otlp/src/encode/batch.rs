//! The samples of one message and the message around them: a `ResourceProfiles` for each kind of
//! samples and process.
//!
//! Under a budget a tick stands for several periods of CPU time. Consumers count timestamps and
//! multiply by the profile's period, so ticks of another weight are in a profile of their own,
//! whose period is that many times as long.

use std::ops::Range;
use std::slice::from_ref;

use ebpf_profiler_core::profile::{Profile, Sample, ThreadId};

use super::dictionary::{Attributes, Dictionary, HasStack};
use super::envelope::Envelope;
use super::facts::Facts;
use super::fields::{DICTIONARY, RESOURCE_PROFILES, profile, sample};
use super::numbers::Numbers;
use crate::buffer::Buffer;
use crate::resource::Resource;
use crate::wire::{Wire, bytes_len, varint_len};

/// Builds a message in two passes.
///
/// Samples are ordered by kind and process. The first pass encodes everything that they refer to,
/// after which all lengths are known; the second one writes the message into a buffer of that size.
#[derive(Debug)]
pub(super) struct Batch<'p> {
    profile: &'p Profile,
    numbers: Numbers<'p>,
    envelope: Envelope<'p>,
    /// The message's samples, as a range of the profile's.
    samples: Range<usize>,
    /// The same samples, equal ones adjacent; empty if no two are equal.
    joined: Vec<Numbered<'p>>,
    groups: Vec<Group>,
}

/// The samples of one kind and process.
#[derive(Debug)]
struct Group {
    /// Number of their kind.
    kind: usize,
    process: u32,
    resource: Vec<u8>,
    /// Number of samples, before equal ones are joined.
    samples: usize,
    /// Encoded size of the samples in bytes.
    len: usize,
}

/// A sample with the number of its stack.
#[derive(Clone, Copy, Debug)]
struct Numbered<'p> {
    sample: Sample<'p>,
    kind: usize,
    /// Selects the events of this value; `None` for all.
    weight: Option<u64>,
    thread: ThreadId,
    stack: HasStack,
}

impl<'p> Batch<'p> {
    pub(super) fn new(
        profile: &'p Profile,
        facts: &'p Facts,
        resource: &'p Resource,
        dictionary: &'p mut Dictionary,
    ) -> Batch<'p> {
        let numbers = Numbers::new(profile, facts, dictionary);
        let envelope = Envelope::new(profile, resource);
        Batch { profile, numbers, envelope, samples: 0..0, joined: Vec::new(), groups: Vec::new() }
    }

    /// Replaces the message by one with these samples of the profile.
    pub(super) fn fill(&mut self, samples: Range<usize>) {
        self.samples = samples;
        self.joined.clear();
        self.groups.clear();
        self.numbers.clear();
        self.envelope.intern_types(self.numbers.dictionary());
        if self.samples.len() == self.profile.samples().len() {
            self.numbers.add_all();
        } else {
            self.numbers.add_frames_of(self.samples().map(|sample| sample.trace()));
        }
        self.measure();
        if self.numbers.has_equal_stacks() || self.envelope.has_weights() {
            self.join();
        }
    }

    fn measure(&mut self) {
        for sample in self.samples() {
            let numbered = self.number(sample);
            self.count(from_ref(&numbered));
        }
    }

    /// Sorts samples so that equal ones are adjacent.
    fn join(&mut self) {
        let mut joined = Vec::with_capacity(self.samples.len());
        for sample in self.samples() {
            let numbered = self.number(sample);
            joined.extend(self.envelope.by_weight(sample).map(|(kind, weight)| Numbered {
                kind,
                weight,
                ..numbered
            }));
        }
        joined.sort_by_key(Numbered::identity);
        self.groups.clear();
        for same in joined.chunk_by(Numbered::is_same) {
            self.count(same);
        }
        self.joined = joined;
    }

    fn samples(&self) -> impl Iterator<Item = Sample<'p>> + use<'p> {
        self.profile.samples().skip(self.samples.start).take(self.samples.len())
    }

    #[inline]
    fn number(&mut self, sample: Sample<'p>) -> Numbered<'p> {
        let kind = self.envelope.kind_number(sample.kind());
        let (thread, stack) = (sample.thread_id(), self.numbers.stack(sample.trace()));
        Numbered { sample, kind, weight: None, thread, stack }
    }

    /// Adds the size of samples that differ only in their times.
    #[inline]
    fn count(&mut self, same: &[Numbered<'p>]) {
        let Some(first) = same.first() else { return };
        let (kind, process) = (first.kind, first.process());
        if self.groups.last().is_none_or(|group| (group.kind, group.process) != (kind, process)) {
            let resource = self.envelope.resource(first.sample.process());
            self.groups.push(Group { kind, process, resource, samples: 0, len: 0 });
        }
        let thread = self.numbers.thread(first.thread);
        if let Some(group) = self.groups.last_mut() {
            group.samples += same.len();
            group.len += bytes_len(Lengths::of(same, thread).all);
        }
    }

    /// Returns the size of the message in bytes.
    pub(super) fn size(&mut self) -> usize {
        let len = |group: &Group| self.envelope.len(&group.resource, group.kind, group.len);
        let groups = self.groups.iter().map(|group| bytes_len(len(group)));
        groups.sum::<usize>() + bytes_len(self.numbers.dictionary().len())
    }

    /// Returns the message.
    pub(super) fn write(&mut self) -> Vec<u8> {
        let mut out = Buffer::with_room(self.size());
        let (mut samples, mut joined) = (self.samples(), 0);
        for index in 0..self.groups.len() {
            let Group { kind, ref resource, len, samples: count, .. } = self.groups[index];
            out.message(RESOURCE_PROFILES, self.envelope.len(resource, kind, len));
            self.envelope.open(resource, kind, len, &mut out);
            if self.joined.is_empty() {
                samples.by_ref().take(count).for_each(|sample| self.put(sample, &mut out));
            } else {
                self.put_joined(joined..joined + count, &mut out);
                joined += count;
            }
            self.envelope.close(kind, &mut out);
        }
        out.message(DICTIONARY, self.numbers.dictionary().len());
        self.numbers.dictionary().put(&mut out);
        out.into_bytes()
    }

    #[inline]
    fn put(&mut self, sample: Sample<'p>, out: &mut Buffer) {
        let numbered = self.number(sample);
        put_sample(from_ref(&numbered), self.numbers.thread(numbered.thread), out);
    }

    fn put_joined(&mut self, range: Range<usize>, out: &mut Buffer) {
        for same in self.joined[range].chunk_by(Numbered::is_same) {
            put_sample(same, self.numbers.thread(same[0].thread), out);
        }
    }
}

impl Numbered<'_> {
    fn process(&self) -> u32 {
        self.sample.thread().process.0
    }

    fn identity(&self) -> (usize, u32, ThreadId, HasStack) {
        (self.kind, self.process(), self.thread, self.stack)
    }

    /// Returns `true` if the events have values. Those of CPU time have none: each timestamp counts
    /// one.
    fn has_values(&self) -> bool {
        !self.sample.kind().is_cpu() && !self.sample.values().is_empty()
    }

    fn is_same(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    /// Returns the number of its events.
    fn count(&self) -> usize {
        match self.weight {
            None => self.sample.timestamps().len(),
            Some(weight) => self.sample.values().iter().filter(|&&value| value == weight).count(),
        }
    }

    /// Appends the times of its events.
    fn put_times(&self, out: &mut Buffer) {
        let (times, values) = (self.sample.timestamps(), self.sample.values());
        match self.weight {
            None => out.fixed64s(times),
            Some(weight) => {
                let events = times.iter().zip(values);
                events.filter(|&(_, &value)| value == weight).for_each(|(&time, _)| out.fixed64s(&[time]));
            }
        }
    }
}

/// Encoded sizes of a sample's parts in bytes.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    values: usize,
    times: usize,
    all: usize,
}

impl Lengths {
    #[inline]
    fn of(same: &[Numbered<'_>], thread: Attributes) -> Lengths {
        let times = same.iter().map(|numbered| 8 * numbered.count()).sum();
        let (stack, has_values) =
            same.first().map_or((0, false), |first| (first.stack.len(), first.has_values()));
        let values = if has_values { values(same).map(varint_len).sum() } else { 0 };
        let values_field = if has_values { bytes_len(values) } else { 0 };
        Lengths { values, times, all: stack + thread.len() + values_field + bytes_len(times) }
    }
}

/// Appends one sample with the timestamps of all equal ones.
#[inline]
fn put_sample(same: &[Numbered<'_>], thread: Attributes, out: &mut Buffer) {
    let Some(first) = same.first() else { return };
    let lengths = Lengths::of(same, thread);
    out.message(profile::SAMPLES, lengths.all);
    first.stack.put(out);
    thread.put(out);
    // Ticks have no values: each timestamp counts one.
    if lengths.values > 0 {
        out.message(sample::VALUES, lengths.values);
        values(same).for_each(|value| out.varint(value));
    }
    out.message(sample::TIMESTAMPS, lengths.times);
    same.iter().for_each(|numbered| numbered.put_times(out));
}

#[inline]
fn values(same: &[Numbered<'_>]) -> impl Iterator<Item = u64> {
    let all = same.iter().flat_map(|numbered| numbered.sample.values());
    // The schema has signed numbers.
    all.map(|&value| value.min(i64::MAX as u64))
}
