//! Samples that go into one message, and the message around them.

use std::ops::Range;
use std::slice::from_ref;

use ebpf_profiler_core::profile::{Profile, Sample, ThreadId};

use super::dictionary::{Attributes, Dictionary, HasStack};
use super::envelope::{Envelope, Group};
use super::facts::Facts;
use super::fields::{DICTIONARY, profile, sample};
use super::numbers::{AHEAD, Numbers};
use crate::buffer::Buffer;
use crate::resource::Resource;
use crate::wire::{Wire, bytes_len, varint_len};

/// A message in the making.
///
/// Samples come process by process, and are encoded where they belong, behind room for what stands before them. The
/// tables are appended in the end.
#[derive(Debug)]
pub(super) struct Batch<'p> {
    profile: &'p Profile,
    numbers: Numbers<'p>,
    envelope: Envelope<'p>,
    /// All but the tables, once it is filled.
    out: Buffer,
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
        dictionary: &'p mut Dictionary,
    ) -> Batch<'p> {
        let numbers = Numbers::new(profile, facts, dictionary);
        let envelope = Envelope::new(profile, resource);
        Batch { profile, numbers, envelope, out: Buffer::default() }
    }

    /// Makes it the message with these samples of the profile.
    pub(super) fn fill(&mut self, range: Range<usize>) {
        self.numbers.clear();
        self.envelope.intern_types(self.numbers.dictionary());
        if range.len() == self.profile.samples().len() {
            self.numbers.learn_all();
        } else {
            self.numbers.learn_these(self.samples(&range).map(|sample| sample.trace()));
        }
        let mut out = self.room(&range);
        self.put_all(&range, &mut out);
        if self.numbers.are_some_alike() {
            out.clear();
            self.put_joined(&range, &mut out);
        }
        self.out = out;
    }

    fn samples(&self, range: &Range<usize>) -> impl Iterator<Item = Sample<'p>> + use<'p> {
        self.profile.samples().skip(range.start).take(range.len())
    }

    /// Room for the message, about.
    fn room(&mut self, range: &Range<usize>) -> Buffer {
        let times: usize = self.samples(range).map(|sample| sample.timestamps().len()).sum();
        let mut out = Buffer::default();
        out.reserve(8 * times + 14 * range.len() + self.numbers.dictionary().room());
        out
    }

    fn put_all(&mut self, range: &Range<usize>, out: &mut Buffer) {
        let (mut ahead, mut group) = (self.samples(range), None);
        for (place, sample) in self.samples(range).enumerate() {
            if place.is_multiple_of(AHEAD) {
                self.numbers.bring(ahead.by_ref().take(AHEAD).map(|sample| sample.trace()));
            }
            let numbered = self.number(sample);
            self.put(from_ref(&numbered), &mut group, out);
        }
        self.envelope.close(group, out);
    }

    /// The same with samples of equal identities side by side, as one.
    fn put_joined(&mut self, range: &Range<usize>, out: &mut Buffer) {
        let mut joined: Vec<_> = self.samples(range).map(|sample| self.number(sample)).collect();
        joined.sort_by_key(Numbered::identity);
        let mut group = None;
        for same in joined.chunk_by(|a, b| a.identity() == b.identity()) {
            self.put(same, &mut group, out);
        }
        self.envelope.close(group, out);
    }

    #[inline]
    fn number(&mut self, sample: Sample<'p>) -> Numbered<'p> {
        Numbered { sample, thread: sample.thread_id(), stack: self.numbers.stack(sample.trace()) }
    }

    /// Appends samples that are equal but for their times.
    #[inline]
    fn put(&mut self, same: &[Numbered<'p>], group: &mut Option<Group>, out: &mut Buffer) {
        let Some(first) = same.first() else { return };
        let process = first.process();
        if group.as_ref().is_none_or(|group| group.process != process) {
            self.envelope.close(group.take(), out);
            *group = Some(self.envelope.open(process, first.sample.process(), out));
        }
        put_sample(same, self.numbers.thread(first.thread), out);
    }

    /// The length of the message.
    pub(super) fn size(&mut self) -> usize {
        self.out.len() + bytes_len(self.numbers.dictionary().len())
    }

    /// The message.
    pub(super) fn write(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.out);
        out.message(DICTIONARY, self.numbers.dictionary().len());
        self.numbers.dictionary().put(&mut out);
        out.into_bytes()
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

/// How many bytes the parts of a sample take.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    values: usize,
    times: usize,
    all: usize,
}

impl Lengths {
    #[inline]
    fn of(same: &[Numbered<'_>], thread: Attributes) -> Lengths {
        let times = same.iter().map(|numbered| 8 * numbered.sample.timestamps().len()).sum();
        let (stack, has_values) =
            same.first().map_or((0, false), |first| (first.stack.len(), !first.sample.waits().is_empty()));
        let values = if has_values { waits(same).map(varint_len).sum() } else { 0 };
        let values_field = if has_values { bytes_len(values) } else { 0 };
        Lengths { values, times, all: stack + thread.len() + values_field + bytes_len(times) }
    }
}

/// One sample; of those that became equal all timestamps.
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
        waits(same).for_each(|value| out.varint(value));
    }
    out.message(sample::TIMESTAMPS, lengths.times);
    same.iter().for_each(|numbered| out.fixed64s(numbered.sample.timestamps()));
}

#[inline]
fn waits(same: &[Numbered<'_>]) -> impl Iterator<Item = u64> {
    let all = same.iter().flat_map(|numbered| numbered.sample.waits());
    // The schema's numbers have a sign.
    all.map(|&nanos| nanos.min(i64::MAX as u64))
}
