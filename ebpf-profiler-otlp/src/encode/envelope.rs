//! The message around the samples of a process; everything but the process is encoded once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ebpf_profiler_core::profile::{Process, Profile, Sample, SampleKind};

use super::dictionary::Dictionary;
use super::fields::{
    any_value, key_value, profile, resource, resource_profiles, scope, scope_profiles, value_type,
};
use crate::buffer::Buffer;
use crate::resource::Resource;
use crate::semantic;
use crate::wire::{Wire, bytes_len, number_len};

/// The parts of a `ResourceProfiles` around its samples.
#[derive(Debug)]
pub(super) struct Envelope<'p> {
    machine: &'p Resource,
    kinds: &'p [SampleKind],
    /// Kinds of CPU time whose ticks have other values than 1, with each of these values, sorted:
    /// their types follow those of `kinds`.
    weights: Vec<(usize, u64)>,
    /// Encoded attributes of all processes.
    shared: Vec<u8>,
    scope: Vec<u8>,
    schema: Vec<u8>,
    scope_schema: Vec<u8>,
    /// Encoded types of each kind of samples.
    types: Vec<Types>,
    time: Vec<u8>,
}

/// Encoded fields of a `Profile` that depend on its kind of samples.
#[derive(Debug, Default)]
struct Types {
    sample_type: Vec<u8>,
    period_type: Vec<u8>,
    period: Vec<u8>,
}

impl<'p> Envelope<'p> {
    pub(super) fn new(from: &'p Profile, machine: &'p Resource) -> Envelope<'p> {
        let mut shared = Vec::new();
        for (key, value) in machine.attributes() {
            put_text(key, value, &mut shared);
        }
        Envelope {
            machine,
            kinds: from.kinds(),
            weights: weights(from),
            shared,
            scope: scope(),
            schema: field(resource_profiles::SCHEMA_URL, semantic::SCHEMA_URL.as_bytes()),
            scope_schema: field(scope_profiles::SCHEMA_URL, semantic::SCHEMA_URL.as_bytes()),
            types: Vec::new(),
            time: time(&window(from)),
        }
    }

    /// Adds the type names to a fresh dictionary.
    ///
    /// Kinds other than CPU time have no period, but an empty period type: Parca rejects a profile
    /// without.
    pub(super) fn intern_types(&mut self, dictionary: &mut Dictionary) {
        let weighted = self.weights.iter().map(|&(kind, weight)| (&self.kinds[kind], weight));
        let types = self.kinds.iter().map(|kind| (kind, 1)).chain(weighted).map(|(kind, weight)| {
            let name = semantic::type_name(kind);
            let (sample, period_type) = match kind.is_cpu() {
                true => (semantic::SAMPLES, semantic::CPU),
                false => ((&*name, kind.unit().name()), ("", "")),
            };
            Types {
                sample_type: value_type(profile::SAMPLE_TYPE, sample, dictionary),
                period_type: value_type(profile::PERIOD_TYPE, period_type, dictionary),
                period: period(kind.period(), weight),
            }
        });
        self.types = types.collect();
    }

    /// Encodes the `Resource` of a process.
    ///
    /// Keys and values are inline: a collector loses string indices in resources.
    pub(super) fn resource(&self, process: &Process) -> Vec<u8> {
        let mut out = self.shared(process);
        if let Some(pid) = semantic::process_id(process) {
            put_number(semantic::PROCESS_PID, pid.into(), &mut out);
        }
        let name = process.executable.rsplit('/').next().unwrap_or_default();
        let created = self.machine.time_of(process.created).unwrap_or_default();
        let known = [
            (semantic::PROCESS_CREATION_TIME, &*created),
            (semantic::PROCESS_EXECUTABLE_PATH, &process.executable),
            (semantic::PROCESS_EXECUTABLE_NAME, name),
            (semantic::CONTAINER_ID, &process.container),
            (semantic::POD_UID, &process.pod),
        ];
        let known = known.into_iter().filter(|(_, value)| !value.is_empty());
        // Keys are unique in a resource.
        let is_free =
            |key: &str| key != semantic::PROCESS_PID && known.clone().all(|(other, _)| other != key);
        let added = process.attributes.iter().map(|(key, value)| (&**key, &**value));
        for (key, value) in known.clone().chain(added.filter(|(key, _)| is_free(key))) {
            put_text(key, value, &mut out);
        }
        out
    }

    /// Returns the encoded attributes of the machine, without those that the process has itself.
    fn shared(&self, process: &Process) -> Vec<u8> {
        if process.attributes.is_empty() {
            return self.shared.clone();
        }
        let mut out = Vec::new();
        let is_own = |key: &str| process.attributes.iter().any(|(own, _)| **own == *key);
        for (key, value) in self.machine.attributes().filter(|(key, _)| !is_own(key)) {
            put_text(key, value, &mut out);
        }
        out
    }

    /// Returns the size of a `ResourceProfiles` with `samples` bytes of samples of kind number
    /// `kind`.
    pub(super) fn len(&self, resource: &[u8], kind: usize, samples: usize) -> usize {
        bytes_len(resource.len()) + bytes_len(self.scope_profiles_len(kind, samples)) + self.schema.len()
    }

    fn scope_profiles_len(&self, kind: usize, samples: usize) -> usize {
        self.scope.len() + bytes_len(self.profile_len(kind, samples)) + self.scope_schema.len()
    }

    fn profile_len(&self, kind: usize, samples: usize) -> usize {
        let types = self.types.get(kind);
        let types = types.map_or(0, |it| it.sample_type.len() + it.period_type.len() + it.period.len());
        types + samples + self.time.len()
    }

    /// Appends the part before the samples.
    pub(super) fn open(&self, resource: &[u8], kind: usize, samples: usize, out: &mut Buffer) {
        out.bytes(resource_profiles::RESOURCE, resource);
        out.message(resource_profiles::SCOPE_PROFILES, self.scope_profiles_len(kind, samples));
        out.put(&self.scope);
        out.message(scope_profiles::PROFILES, self.profile_len(kind, samples));
        if let Some(types) = self.types.get(kind) {
            out.put(&types.sample_type);
        }
    }

    /// Appends the part after the samples.
    pub(super) fn close(&self, kind: usize, out: &mut Buffer) {
        out.put(&self.time);
        if let Some(types) = self.types.get(kind) {
            out.put(&types.period_type);
            out.put(&types.period);
        }
        out.put(&self.scope_schema);
        out.put(&self.schema);
    }

    /// Returns the number of the kind of a sample.
    pub(super) fn kind_number(&self, kind: &SampleKind) -> usize {
        self.kinds.iter().position(|known| std::ptr::eq(known, kind)).unwrap_or(0)
    }

    /// Returns `true` if a tick has another value than 1.
    pub(super) fn has_weights(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Returns the numbers of the types of a sample's events, each with the value of these events;
    /// `None` for all values.
    pub(super) fn by_weight(
        &self,
        sample: Sample<'p>,
    ) -> impl Iterator<Item = (usize, Option<u64>)> + use<'p> {
        let kind = self.kind_number(sample.kind());
        let distinct = if sample.kind().is_cpu() { distinct(sample.values()) } else { Vec::new() };
        let all = distinct.is_empty().then_some((kind, None));
        let number = |weight| match self.weights.binary_search(&(kind, weight)) {
            Ok(index) => self.kinds.len() + index,
            Err(_) => kind,
        };
        let each: Vec<_> = distinct.into_iter().map(|weight| (number(weight), Some(weight))).collect();
        all.into_iter().chain(each)
    }
}

/// Returns the values other than 1 of ticks, each once, with the numbers of their kinds.
fn weights(profile: &Profile) -> Vec<(usize, u64)> {
    let is_same = |kind: &SampleKind, sample: &Sample<'_>| std::ptr::eq(kind, sample.kind());
    let mut all = Vec::new();
    for (number, kind) in profile.kinds().iter().enumerate().filter(|(_, kind)| kind.is_cpu()) {
        for sample in profile.samples().filter(|sample| is_same(kind, sample)) {
            all.extend(distinct(sample.values()).into_iter().map(|weight| (number, weight)));
        }
        all.sort_unstable();
        all.dedup();
    }
    all.retain(|&(_, weight)| weight != 1);
    all
}

/// Returns each value once, sorted.
fn distinct(values: &[u64]) -> Vec<u64> {
    let mut distinct = values.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// Returns the profile's time range in nanoseconds, extended to include all timestamps; the end is
/// exclusive.
///
/// Timestamps and the profile's start come from different clocks, so that timestamps can be
/// slightly outside.
fn window(profile: &Profile) -> std::ops::Range<u64> {
    let start = nanos_since_1970(profile.start());
    let end = start.saturating_add(nanos(profile.duration()));
    let (mut first, mut last) = (start, 0);
    for sample in profile.samples() {
        for &time in sample.timestamps() {
            first = first.min(time);
            last = last.max(time);
        }
    }
    first..end.max(last.saturating_add(1))
}

fn nanos_since_1970(time: SystemTime) -> u64 {
    nanos(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn time(window: &std::ops::Range<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    out.fixed64(profile::TIME, window.start);
    out.number(profile::DURATION, window.end - window.start);
    out
}

fn period(period: Duration, weight: u64) -> Vec<u8> {
    let mut out = Vec::new();
    out.number(profile::PERIOD, nanos(period).saturating_mul(weight).min(i64::MAX as u64));
    out
}

fn value_type(number: u8, (kind, unit): (&str, &str), dictionary: &mut Dictionary) -> Vec<u8> {
    let mut content = Vec::new();
    content.number(value_type::TYPE, dictionary.string(kind).into());
    content.number(value_type::UNIT, dictionary.string(unit).into());
    field(number, &content)
}

fn scope() -> Vec<u8> {
    let mut content = Vec::new();
    content.bytes(scope::NAME, semantic::SCOPE_NAME.as_bytes());
    content.bytes(scope::VERSION, env!("CARGO_PKG_VERSION").as_bytes());
    field(scope_profiles::SCOPE, &content)
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.bytes(number, content);
    out
}

fn put_text(key: &str, text: &str, out: &mut Vec<u8>) {
    let text = truncate(text);
    let value = bytes_len(text.len());
    out.message(resource::ATTRIBUTES, bytes_len(key.len()) + bytes_len(value));
    out.bytes(key_value::KEY, key.as_bytes());
    out.message(key_value::VALUE, value);
    out.bytes(any_value::STRING, text.as_bytes());
}

/// Maximum size of an attribute's text in bytes; the rest is cut.
///
/// Pyroscope turns attributes into labels and rejects a whole request for a longer one. Any user
/// can give a program a path of 4,095 bytes.
const MAX_TEXT: usize = 2_048;

fn truncate(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

fn put_number(key: &str, number: u64, out: &mut Vec<u8>) {
    let value = number_len(number).max(2);
    out.message(resource::ATTRIBUTES, bytes_len(key.len()) + bytes_len(value));
    out.bytes(key_value::KEY, key.as_bytes());
    out.message(key_value::VALUE, value);
    out.number_or_zero(any_value::INT, number);
}
