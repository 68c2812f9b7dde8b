//! What stands around the samples of a process; all of it but the process is encoded once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ebpf_profiler_core::profile::{Process, Profile};

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
    is_off_cpu: bool,
    /// The attributes that all processes share.
    shared: Vec<u8>,
    scope: Vec<u8>,
    schema: Vec<u8>,
    scope_schema: Vec<u8>,
    sample_type: Vec<u8>,
    period_type: Vec<u8>,
    time: Vec<u8>,
    period: Vec<u8>,
}

impl<'p> Envelope<'p> {
    pub(super) fn new(from: &Profile, machine: &'p Resource) -> Envelope<'p> {
        let mut shared = Vec::new();
        for (key, value) in machine.attributes() {
            put_text(key, value, &mut shared);
        }
        Envelope {
            machine,
            is_off_cpu: from.is_off_cpu(),
            shared,
            scope: scope(),
            schema: field(resource_profiles::SCHEMA_URL, semantic::SCHEMA_URL.as_bytes()),
            scope_schema: field(scope_profiles::SCHEMA_URL, semantic::SCHEMA_URL.as_bytes()),
            sample_type: Vec::new(),
            period_type: Vec::new(),
            time: time(&window(from)),
            period: period(from.period()),
        }
    }

    /// Gives the names of the types their numbers in a fresh dictionary.
    ///
    /// These are the two shapes that consumers know. The second has no period, but its type has to be there: Parca
    /// refuses a profile without.
    pub(super) fn intern_types(&mut self, dictionary: &mut Dictionary) {
        let (sample, period) = match self.is_off_cpu {
            false => (semantic::SAMPLES, semantic::CPU),
            true => (semantic::OFF_CPU, ("", "")),
        };
        self.sample_type = value_type(profile::SAMPLE_TYPE, sample, dictionary);
        self.period_type = value_type(profile::PERIOD_TYPE, period, dictionary);
    }

    /// The `Resource` of a process.
    ///
    /// Keys and values are plain: what numbers of strings would stand for is lost on the way through
    /// a collector.
    pub(super) fn resource(&self, process: &Process) -> Vec<u8> {
        let mut out = self.shared.clone();
        put_number(semantic::PROCESS_PID, process.pid.into(), &mut out);
        let name = process.executable.rsplit('/').next().unwrap_or_default();
        let created = self.machine.time_of(process.created).unwrap_or_default();
        for (key, value) in [
            (semantic::PROCESS_CREATION_TIME, &*created),
            (semantic::PROCESS_EXECUTABLE_PATH, &process.executable),
            (semantic::PROCESS_EXECUTABLE_NAME, name),
            (semantic::CONTAINER_ID, &process.container),
        ] {
            if !value.is_empty() {
                put_text(key, value, &mut out);
            }
        }
        out
    }

    /// The length of a `ResourceProfiles` with `samples` bytes of samples.
    pub(super) fn len(&self, resource: &[u8], samples: usize) -> usize {
        bytes_len(resource.len()) + bytes_len(self.scope_profiles_len(samples)) + self.schema.len()
    }

    fn scope_profiles_len(&self, samples: usize) -> usize {
        self.scope.len() + bytes_len(self.profile_len(samples)) + self.scope_schema.len()
    }

    fn profile_len(&self, samples: usize) -> usize {
        self.sample_type.len() + samples + self.time.len() + self.period_type.len() + self.period.len()
    }

    /// Appends everything up to the samples.
    pub(super) fn open(&self, resource: &[u8], samples: usize, out: &mut Buffer) {
        out.bytes(resource_profiles::RESOURCE, resource);
        out.message(resource_profiles::SCOPE_PROFILES, self.scope_profiles_len(samples));
        out.put(&self.scope);
        out.message(scope_profiles::PROFILES, self.profile_len(samples));
        out.put(&self.sample_type);
    }

    /// Appends everything behind the samples.
    pub(super) fn close(&self, out: &mut Buffer) {
        for part in [&self.time, &self.period_type, &self.period, &self.scope_schema, &self.schema] {
            out.put(part);
        }
    }
}

/// The profile's stretch of time in nanoseconds, wide enough to hold all timestamps: its end isn't in it.
///
/// Timestamps come from another clock than the profile's beginning and end, and can lie outside by a little.
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

fn period(period: Duration) -> Vec<u8> {
    let mut out = Vec::new();
    out.number(profile::PERIOD, nanos(period).min(i64::MAX as u64));
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
    let text = beginning(text);
    let value = bytes_len(text.len());
    out.message(resource::ATTRIBUTES, bytes_len(key.len()) + bytes_len(value));
    out.bytes(key_value::KEY, key.as_bytes());
    out.message(key_value::VALUE, value);
    out.bytes(any_value::STRING, text.as_bytes());
}

/// What is behind this many bytes of a text is left out.
///
/// Pyroscope makes a label of it, and refuses the request, all processes with it, for one that is longer. Anybody can
/// give a program a path of 4,095 bytes.
const LONGEST: usize = 2_048;

fn beginning(text: &str) -> &str {
    let end = (0..=text.len().min(LONGEST)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

fn put_number(key: &str, number: u64, out: &mut Vec<u8>) {
    let value = number_len(number).max(2);
    out.message(resource::ATTRIBUTES, bytes_len(key.len()) + bytes_len(value));
    out.bytes(key_value::KEY, key.as_bytes());
    out.message(key_value::VALUE, value);
    out.number_or_zero(any_value::INT, number);
}
