//! Stacks in the messages that a collector has written: four bytes of length, then the message,
//! again and again.

use std::path::Path;

use benches::chain::{Seen, holds};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::profiles::v1development::{
    Location, ProfilesDictionary, ResourceProfiles, Sample,
};
use prost::Message as _;

use crate::Outcome;

/// A time in which a process was sampled, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) pid: u32,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// All messages of a file.
pub(crate) struct Received(Vec<ExportProfilesServiceRequest>);

impl Received {
    pub(crate) fn read(file: &Path) -> Outcome<Received> {
        let bytes = std::fs::read(file)?;
        let mut rest = bytes.as_slice();
        let mut messages = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk() {
            // The last one may be half written.
            let Some((message, after)) = after.split_at_checked(u32::from_be_bytes(*length) as usize) else {
                break;
            };
            messages.push(ExportProfilesServiceRequest::decode(message)?);
            rest = after;
        }
        Ok(Received(messages))
    }

    /// Counts the samples in some windows of a process, and those with all calls.
    pub(crate) fn held(&self, windows: &[Window], depth: u32) -> (u64, u64) {
        let (mut samples, mut held) = (0, 0);
        for (dictionary, sample) in self.samples(windows.first().map_or(0, |window| window.pid)) {
            let is_in = |time: u64| windows.iter().any(|it| (it.begin..it.end).contains(&time));
            let count = sample.timestamps_unix_nano.iter().filter(|&&time| is_in(time)).count() as u64;
            samples += count;
            held += if count > 0 && holds(&stack(dictionary, sample), depth) { count } else { 0 };
        }
        (samples, held)
    }

    /// Returns the samples of a process.
    fn samples(&self, pid: u32) -> impl Iterator<Item = (&ProfilesDictionary, &Sample)> {
        self.0.iter().filter_map(|message| Some((message.dictionary.as_ref()?, message))).flat_map(
            move |(dictionary, message)| {
                let own = message.resource_profiles.iter().filter(move |it| is_of(dictionary, it, pid));
                let profiles = own.flat_map(|it| &it.scope_profiles).flat_map(|it| &it.profiles);
                profiles.flat_map(|it| &it.samples).map(move |sample| (dictionary, sample))
            },
        )
    }
}

fn is_of(dictionary: &ProfilesDictionary, profiles: &ResourceProfiles, pid: u32) -> bool {
    let mut attributes = profiles.resource.iter().flat_map(|it| &it.attributes);
    attributes.any(|it| {
        let key = if it.key.is_empty() { text(dictionary, it.key_strindex) } else { &it.key };
        let value = it.value.as_ref().and_then(|it| it.value.as_ref());
        key == "process.pid" && value == Some(&Value::IntValue(pid.into()))
    })
}

/// Returns a stack, leaf first.
fn stack(dictionary: &ProfilesDictionary, sample: &Sample) -> Vec<Seen> {
    let stack = dictionary.stack_table.get(sample.stack_index as usize);
    let locations = stack.into_iter().flat_map(|stack| &stack.location_indices);
    let locations = locations.filter_map(|&index| dictionary.location_table.get(index as usize));
    locations.flat_map(|location| frames(dictionary, location)).collect()
}

/// Returns the functions at a location: several if some were inlined.
fn frames(dictionary: &ProfilesDictionary, location: &Location) -> Vec<Seen> {
    match kind(dictionary, location) {
        "native" => vec![Seen::Native],
        "kernel" | "abort-marker" => vec![Seen::Other],
        _ if location.lines.is_empty() => vec![Seen::Other],
        _ => {
            let function = |index: i32| dictionary.function_table.get(index as usize);
            let name = |index| function(index).map_or("", |it| text(dictionary, it.name_strindex));
            location.lines.iter().map(|line| Seen::Script(name(line.function_index).to_owned())).collect()
        }
    }
}

/// Returns the type of a location's frame.
fn kind<'d>(dictionary: &'d ProfilesDictionary, location: &Location) -> &'d str {
    let attributes = location.attribute_indices.iter();
    let attributes = attributes.filter_map(|&index| dictionary.attribute_table.get(index as usize));
    let mut types = attributes.filter(|it| text(dictionary, it.key_strindex) == "profile.frame.type");
    match types.next().and_then(|it| it.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(kind)) => kind,
        Some(Value::StringValueStrindex(index)) => text(dictionary, *index),
        _ => "",
    }
}

fn text(dictionary: &ProfilesDictionary, index: i32) -> &str {
    dictionary.string_table.get(index as usize).map_or("", |text| text)
}
