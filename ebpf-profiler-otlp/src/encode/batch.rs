//! Samples that go into one message, and the message around them.

use std::ops::Range;

use ebpf_profiler_core::profile::{Process, Profile, Sample, ThreadId};

use super::dictionary::{Attributes, Dictionary, HasStack};
use super::envelope::Envelope;
use super::fields::{DICTIONARY, RESOURCE_PROFILES, profile, sample};
use super::numbers::{Facts, Numbers};
use crate::buffer::Buffer;
use crate::resource::Resource;
use crate::wire::{Wire, bytes_len, varint_len};

/// A message in the making.
///
/// Samples come process by process and are encoded as they come. When all are there their sizes are known, and the
/// message is put together in one go in a buffer of the right size.
#[derive(Debug)]
pub(super) struct Batch<'p> {
    profile: &'p Profile,
    numbers: Numbers<'p>,
    envelope: Envelope<'p>,
    /// The fields of all samples.
    bytes: &'p mut Buffer,
    groups: Vec<Group>,
}

/// What keeps its memory from one message to the next.
#[derive(Debug, Default)]
pub(super) struct Kept {
    dictionary: Dictionary,
    samples: Buffer,
}

/// The samples of one process.
#[derive(Debug)]
struct Group {
    process: u32,
    resource: Vec<u8>,
    /// Where their bytes begin.
    start: usize,
}

/// A sample, numbered.
#[derive(Clone, Copy, Debug)]
struct Numbered<'p> {
    sample: Sample<'p>,
    thread: ThreadId,
    stack: HasStack,
}

impl<'p> Batch<'p> {
    pub(super) fn new(
        profile: &'p Profile,
        facts: &'p Facts,
        resource: &'p Resource,
        Kept { dictionary, samples }: &'p mut Kept,
    ) -> Batch<'p> {
        let numbers = Numbers::new(profile, facts, dictionary);
        let envelope = Envelope::new(profile, resource);
        Batch { profile, numbers, envelope, bytes: samples, groups: Vec::new() }
    }

    /// Makes it the message with these samples of the profile.
    pub(super) fn fill(&mut self, samples: Range<usize>) {
        self.numbers.clear();
        self.envelope.intern_types(self.numbers.dictionary());
        if samples.len() == self.profile.samples().len() {
            self.numbers.all();
        }
        self.clear();
        for sample in self.samples(&samples) {
            let numbered = self.number(sample);
            self.add(std::slice::from_ref(&numbered));
        }
        if self.numbers.are_some_alike() {
            self.join(&samples);
        }
    }

    /// Brings samples with equal identities together and encodes all samples again.
    fn join(&mut self, samples: &Range<usize>) {
        let mut samples: Vec<_> = self.samples(samples).map(|sample| self.number(sample)).collect();
        samples.sort_by_key(Numbered::identity);
        self.clear();
        for same in samples.chunk_by(|a, b| a.identity() == b.identity()) {
            self.add(same);
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.groups.clear();
    }

    fn samples(&self, range: &Range<usize>) -> impl Iterator<Item = Sample<'p>> + use<'p> {
        self.profile.samples().skip(range.start).take(range.len())
    }

    #[inline]
    fn number(&mut self, sample: Sample<'p>) -> Numbered<'p> {
        Numbered { sample, thread: sample.thread_id(), stack: self.numbers.stack(sample.trace()) }
    }

    /// Adds samples that are equal but for their times.
    #[inline]
    fn add(&mut self, same: &[Numbered<'p>]) {
        let Some(first) = same.first() else { return };
        let process = first.process();
        if self.groups.last().is_none_or(|group| group.process != process) {
            self.begin(process, first.sample.process());
        }
        put_sample(same, first.stack, self.numbers.thread(first.thread), self.bytes);
    }

    fn begin(&mut self, process: u32, attributes: &Process) {
        let resource = self.envelope.resource(attributes);
        self.groups.push(Group { process, resource, start: self.bytes.len() });
    }

    /// The length of the message.
    pub(super) fn size(&mut self) -> usize {
        let groups = (0..self.groups.len()).map(|index| bytes_len(self.group_len(index)));
        groups.sum::<usize>() + bytes_len(self.numbers.dictionary().len())
    }

    fn group_len(&self, index: usize) -> usize {
        self.envelope.len(&self.groups[index].resource, self.samples_of(index).len())
    }

    /// The fields of the samples of a group.
    fn samples_of(&self, index: usize) -> &[u8] {
        let end = self.groups.get(index + 1).map_or(self.bytes.len(), |next| next.start);
        &self.bytes[self.groups[index].start..end]
    }

    /// The message.
    pub(super) fn write(&mut self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        for index in 0..self.groups.len() {
            self.write_group(index, &mut out);
        }
        out.message(DICTIONARY, self.numbers.dictionary().len());
        self.numbers.dictionary().put(&mut out);
        out
    }

    fn write_group(&self, index: usize, out: &mut Vec<u8>) {
        let resource = &self.groups[index].resource;
        let samples = self.samples_of(index);
        out.message(RESOURCE_PROFILES, self.group_len(index));
        self.envelope.open(resource, samples.len(), out);
        out.put(samples);
        self.envelope.close(out);
    }
}

impl Numbered<'_> {
    fn process(&self) -> u32 {
        self.sample.thread().process.0
    }

    fn identity(&self) -> (u32, ThreadId, HasStack) {
        (self.process(), self.thread, self.stack)
    }
}

/// One sample; of those that became equal all timestamps.
#[inline]
fn put_sample(same: &[Numbered<'_>], stack: HasStack, thread: Attributes, out: &mut Buffer) {
    let timestamps: usize = same.iter().map(|numbered| 8 * numbered.sample.timestamps().len()).sum();
    let values = values_len(same);
    let values_field = if values == 0 { 0 } else { bytes_len(values) };
    out.message(profile::SAMPLES, stack.len() + thread.len() + values_field + bytes_len(timestamps));
    stack.put(out);
    thread.put(out);
    if values > 0 {
        out.message(sample::VALUES, values);
        waits(same).for_each(|value| out.varint(value));
    }
    out.message(sample::TIMESTAMPS, timestamps);
    same.iter().for_each(|numbered| out.fixed64s(numbered.sample.timestamps()));
}

/// Ticks have none: each timestamp counts one.
#[inline]
fn values_len(same: &[Numbered<'_>]) -> usize {
    waits(same).map(varint_len).sum()
}

#[inline]
fn waits(same: &[Numbered<'_>]) -> impl Iterator<Item = u64> {
    let all = same.iter().flat_map(|numbered| numbered.sample.waits());
    // The schema's numbers have a sign.
    all.map(|&nanos| nanos.min(i64::MAX as u64))
}
