//! Samples that go into one message, and the message around them.

use ebpf_profiler_core::profile::{Process, Profile, Sample, ThreadId};

use super::dictionary::Dictionary;
use super::envelope::Envelope;
use super::fields::{DICTIONARY, RESOURCE_PROFILES, profile, sample};
use super::numbers::{Facts, Numbers};
use crate::resource::Resource;
use crate::wire::{Wire, bytes_len, number_len};

/// A message in the making.
///
/// Samples come process by process. First everything gets its number and the sizes are added up, then all is
/// written in one go into a buffer of the right size.
#[derive(Debug)]
pub(super) struct Batch<'p> {
    numbers: Numbers<'p>,
    envelope: Envelope<'p>,
    planned: Vec<Planned<'p>>,
    groups: Vec<Group>,
    /// What all groups but the last take.
    closed: usize,
    /// Whether samples of different traces have become equal and must be joined.
    alike: bool,
}

/// More than scope, types, times and lengths around the last group and the dictionary take.
const FRAMING: usize = 1024;

/// A sample, numbered.
#[derive(Clone, Copy, Debug)]
struct Planned<'p> {
    sample: Sample<'p>,
    thread: ThreadId,
    stack: u32,
}

/// The samples of one process.
#[derive(Debug)]
struct Group {
    process: u32,
    resource: Vec<u8>,
    first: usize,
    /// What their fields take.
    size: usize,
}

impl<'p> Batch<'p> {
    pub(super) fn new(
        profile: &'p Profile,
        facts: &'p Facts,
        resource: &'p Resource,
        dictionary: &'p mut Dictionary,
    ) -> Batch<'p> {
        let mut batch = Batch {
            numbers: Numbers::new(profile, facts, dictionary),
            envelope: Envelope::new(profile, resource),
            planned: Vec::with_capacity(profile.samples().len()),
            groups: Vec::new(),
            closed: 0,
            alike: false,
        };
        batch.refill(&[]);
        batch
    }

    /// Begins the next message with these samples.
    pub(super) fn refill(&mut self, samples: &[Sample<'p>]) {
        self.numbers.clear();
        self.envelope.intern_types(self.numbers.dictionary());
        self.planned.clear();
        self.groups.clear();
        self.closed = 0;
        self.alike = false;
        samples.iter().for_each(|sample| self.add(*sample));
    }

    pub(super) fn add(&mut self, sample: Sample<'p>) {
        let thread = sample.thread_id();
        let process = sample.thread().process.0;
        if self.groups.last().is_none_or(|group| group.process != process) {
            self.begin(process, sample.process());
        }
        let (stack, alike) = self.numbers.stack(sample.trace());
        self.alike |= alike;
        let size = sample_len(stack, self.numbers.thread(thread), sample.timestamps().len());
        if let Some(group) = self.groups.last_mut() {
            group.size += bytes_len(size);
        }
        self.planned.push(Planned { sample, thread, stack });
    }

    fn begin(&mut self, process: u32, attributes: &Process) {
        self.closed += self.last_len();
        let resource = self.envelope.resource(attributes);
        self.groups.push(Group { process, resource, first: self.planned.len(), size: 0 });
    }

    /// Whether the message is longer than `limit`.
    pub(super) fn exceeds(&mut self, limit: usize) -> bool {
        // Close to the truth is quickly said, and most of the time far from the limit.
        let last = self.groups.last().map_or(0, |group| group.size + group.resource.len());
        let rest = self.closed + self.numbers.dictionary().len() + FRAMING;
        last.saturating_add(rest) > limit && self.size() > limit
    }

    /// The length of the message; joining equal samples can make it a little less.
    fn size(&mut self) -> usize {
        self.closed + self.last_len() + bytes_len(self.numbers.dictionary().len())
    }

    fn last_len(&self) -> usize {
        let len = |group: &Group| bytes_len(self.envelope.len(&group.resource, group.size));
        self.groups.last().map_or(0, len)
    }

    /// The message.
    pub(super) fn write(&mut self) -> Vec<u8> {
        if self.alike {
            self.join();
        }
        let mut out = Vec::with_capacity(self.size());
        for index in 0..self.groups.len() {
            self.write_group(index, &mut out);
        }
        out.message(DICTIONARY, self.numbers.dictionary().len());
        self.numbers.dictionary().put(&mut out);
        out
    }

    fn write_group(&mut self, index: usize, out: &mut Vec<u8>) {
        let group = &self.groups[index];
        out.message(RESOURCE_PROFILES, self.envelope.len(&group.resource, group.size));
        self.envelope.open(&group.resource, group.size, out);
        for same in samples_of(&self.groups, &self.planned, index).chunk_by(Planned::is_same) {
            put_sample(same, &mut self.numbers, out);
        }
        self.envelope.close(out);
    }

    /// Brings samples with equal identities together and corrects the sizes.
    fn join(&mut self) {
        for index in 0..self.groups.len() {
            let range = range_of(&self.groups, self.planned.len(), index);
            let samples = &mut self.planned[range];
            samples.sort_by_key(|planned| (planned.thread, planned.stack));
            let numbers = &mut self.numbers;
            let len = |same: &[Planned<'p>]| {
                let count = same.iter().map(|planned| planned.sample.timestamps().len()).sum();
                bytes_len(sample_len(same[0].stack, numbers.thread(same[0].thread), count))
            };
            self.groups[index].size = samples.chunk_by(Planned::is_same).map(len).sum();
        }
    }
}

impl Planned<'_> {
    fn is_same(&self, other: &Self) -> bool {
        self.stack == other.stack && self.thread == other.thread
    }
}

/// One sample; of those that became equal all timestamps.
fn put_sample<'p>(same: &[Planned<'p>], numbers: &mut Numbers<'p>, out: &mut Vec<u8>) {
    let Some(first) = same.first() else { return };
    let thread = numbers.thread(first.thread);
    let count = same.iter().map(|planned| planned.sample.timestamps().len()).sum();
    out.message(profile::SAMPLES, sample_len(first.stack, thread, count));
    out.number(sample::STACK, first.stack.into());
    out.extend_from_slice(thread);
    out.message(sample::TIMESTAMPS, count * 8);
    same.iter().for_each(|planned| out.fixed64s(planned.sample.timestamps()));
}

fn samples_of<'a, 'p>(groups: &[Group], planned: &'a [Planned<'p>], index: usize) -> &'a [Planned<'p>] {
    &planned[range_of(groups, planned.len(), index)]
}

fn range_of(groups: &[Group], planned: usize, index: usize) -> std::ops::Range<usize> {
    groups[index].first..groups.get(index + 1).map_or(planned, |next| next.first)
}

fn sample_len(stack: u32, thread: &[u8], timestamps: usize) -> usize {
    number_len(stack.into()) + thread.len() + bytes_len(8 * timestamps)
}
