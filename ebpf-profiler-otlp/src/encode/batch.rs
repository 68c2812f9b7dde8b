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
/// Samples come process by process and are encoded as they come. When all are there their sizes are known, and the
/// message is put together in one go in a buffer of the right size.
#[derive(Debug)]
pub(super) struct Batch<'p> {
    numbers: Numbers<'p>,
    envelope: Envelope<'p>,
    /// The fields of all samples.
    bytes: Vec<u8>,
    groups: Vec<Group>,
    /// What all groups but the last take.
    closed: usize,
    planned: Vec<Planned<'p>>,
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
    /// Where its samples begin, in `planned` and in `bytes`.
    first: usize,
    start: usize,
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
            bytes: Vec::new(),
            groups: Vec::new(),
            closed: 0,
            planned: Vec::with_capacity(profile.samples().len()),
            alike: false,
        };
        batch.refill(&[]);
        batch
    }

    /// Begins the next message with these samples.
    pub(super) fn refill(&mut self, samples: &[Sample<'p>]) {
        self.numbers.clear();
        self.envelope.intern_types(self.numbers.dictionary());
        self.bytes.clear();
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
        let planned = Planned { sample, thread, stack };
        put_sample(&[planned], self.numbers.thread(thread), &mut self.bytes);
        self.planned.push(planned);
    }

    fn begin(&mut self, process: u32, attributes: &Process) {
        self.closed += self.last_len();
        let resource = self.envelope.resource(attributes);
        self.groups.push(Group { process, resource, first: self.planned.len(), start: self.bytes.len() });
    }

    /// Whether the message is longer than `limit`.
    pub(super) fn exceeds(&mut self, limit: usize) -> bool {
        // Close to the truth is quickly said, and most of the time far from the limit.
        let last = self.groups.last().map_or(0, |it| self.bytes.len() - it.start + it.resource.len());
        let rest = self.closed + self.numbers.dictionary().len() + FRAMING;
        last.saturating_add(rest) > limit && self.size() > limit
    }

    /// The length of the message; joining equal samples makes it a little less.
    fn size(&mut self) -> usize {
        self.closed + self.last_len() + bytes_len(self.numbers.dictionary().len())
    }

    fn last_len(&self) -> usize {
        let len =
            |group: &Group| bytes_len(self.envelope.len(&group.resource, self.bytes.len() - group.start));
        self.groups.last().map_or(0, len)
    }

    /// The message.
    pub(super) fn write(&mut self) -> Vec<u8> {
        if self.alike {
            self.join();
        }
        let mut out =
            Vec::with_capacity(self.closed + self.last_len() + self.numbers.dictionary().len() + HEAD);
        for index in 0..self.groups.len() {
            self.write_group(index, &mut out);
        }
        out.message(DICTIONARY, self.numbers.dictionary().len());
        self.numbers.dictionary().put(&mut out);
        out
    }

    fn write_group(&self, index: usize, out: &mut Vec<u8>) {
        let group = &self.groups[index];
        let end = self.groups.get(index + 1).map_or(self.bytes.len(), |next| next.start);
        let samples = &self.bytes[group.start..end];
        out.message(RESOURCE_PROFILES, self.envelope.len(&group.resource, samples.len()));
        self.envelope.open(&group.resource, samples.len(), out);
        out.extend_from_slice(samples);
        self.envelope.close(out);
    }

    /// Brings samples with equal identities together and encodes all samples again.
    fn join(&mut self) {
        self.bytes.clear();
        for index in 0..self.groups.len() {
            let end = self.groups.get(index + 1).map_or(self.planned.len(), |next| next.first);
            let samples = &mut self.planned[self.groups[index].first..end];
            samples.sort_by_key(|planned| (planned.thread, planned.stack));
            self.groups[index].start = self.bytes.len();
            for same in samples.chunk_by(Planned::is_same) {
                put_sample(same, self.numbers.thread(same[0].thread), &mut self.bytes);
            }
        }
    }
}

impl Planned<'_> {
    fn is_same(&self, other: &Self) -> bool {
        self.stack == other.stack && self.thread == other.thread
    }
}

/// One sample; of those that became equal all timestamps.
fn put_sample(same: &[Planned<'_>], thread: &[u8], out: &mut Vec<u8>) {
    let stack = same.first().map_or(0, |planned| planned.stack);
    let timestamps: usize = same.iter().map(|planned| 8 * planned.sample.timestamps().len()).sum();
    let len = number_len(stack.into()) + thread.len() + bytes_len(timestamps);
    out.reserve(len + HEAD);
    out.message(profile::SAMPLES, len);
    out.number(sample::STACK, stack.into());
    out.extend_from_slice(thread);
    out.message(sample::TIMESTAMPS, timestamps);
    same.iter().for_each(|planned| out.fixed64s(planned.sample.timestamps()));
}

/// More than a tag and a length take.
const HEAD: usize = 16;
