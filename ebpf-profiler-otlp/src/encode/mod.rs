//! A profile as OpenTelemetry takes it.
//!
//! ```text
//!   Profile ──► by process ──► numbers ──► one message, or several below the limit ──► Bytes
//!               samples        of strings, attributes, functions, mappings,
//!                              locations and stacks in the tables
//! ```
//!
//! Tables hold their elements as the bytes that go out, so a part of the profile is encoded when it gets its
//! number, and equal parts are found by comparing bytes.

mod batch;
mod dictionary;
mod envelope;
mod facts;
pub(crate) mod fields;
mod numbers;
mod order;

use std::ops::Range;

use bytes::Bytes;
use ebpf_profiler_core::profile::Profile;

use crate::identity::{BuildIds, Identities};
use crate::kernel;
use crate::resource::Resource;
use batch::Batch;
use dictionary::Dictionary;
use facts::Facts;

/// Encodes a profile as one OTLP `ProfilesData`, which is also an `ExportProfilesServiceRequest`.
///
/// There is one resource for each process. A profile without samples gives no bytes at all, which decode as an
/// empty message; it should not be sent.
///
/// Who encodes more than once, or for a receiver with a limit, keeps an [`Encoder`].
///
/// # Examples
///
/// ```
/// use ebpf_profiler_otlp::{Resource, encode};
/// # use std::time::{Duration, SystemTime};
/// # use ebpf_profiler_core::{profile::ProfileBuilder, symbol::NoSymbols};
/// # let empty = ProfileBuilder::new(Duration::from_millis(50));
/// # let profile = empty.finish(SystemTime::now(), Duration::from_secs(5), |_| None, &mut NoSymbols);
///
/// let bytes = encode(&profile, &Resource::of_this_machine());
/// std::fs::write("/dev/null", &bytes)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn encode(profile: &Profile, resource: &Resource) -> Bytes {
    let mut encoder = Encoder::new(resource.clone()).limit(usize::MAX);
    encoder.encode(profile).pop().unwrap_or_default()
}

/// Encodes profiles, and keeps what is the same from one to the next.
///
/// The build ids of a file are read when a profile first has it: some headers and 8 KiB.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_otlp::{Encoder, Resource};
/// # use std::time::{Duration, SystemTime};
/// # use ebpf_profiler_core::{profile::ProfileBuilder, symbol::NoSymbols};
/// # let empty = ProfileBuilder::new(Duration::from_millis(50));
/// # let profile = empty.finish(SystemTime::now(), Duration::from_secs(5), |_| None, &mut NoSymbols);
///
/// let mut encoder = Encoder::new(Resource::of_this_machine()).limit(1 << 20);
/// for message in encoder.encode(&profile) {
///     assert!(message.len() <= 1 << 20);
/// }
/// ```
#[derive(Debug)]
pub struct Encoder {
    resource: Resource,
    limit: usize,
    all_frame_types: bool,
    linker_names: bool,
    identities: Identities,
    dictionary: Dictionary,
}

/// What every collector takes unless it was told otherwise: 4 MiB, the default of gRPC servers.
const LIMIT: usize = 4 << 20;

impl Encoder {
    /// An encoder for one machine, whose messages have at most 4 MiB.
    pub fn new(resource: Resource) -> Encoder {
        Encoder {
            resource,
            limit: LIMIT,
            all_frame_types: false,
            linker_names: false,
            identities: Identities::default(),
            dictionary: Dictionary::default(),
        }
    }

    /// Sets the size in bytes above which a message is split; each part stands for itself.
    ///
    /// A single sample is never split, so one with very many timestamps can make a message that is larger.
    pub fn limit(mut self, bytes: usize) -> Encoder {
        self.limit = bytes;
        self
    }

    /// Whether frames have the most precise type, `rust`, `luajit` or that of a language of your own, or only
    /// [those that everybody accepts](crate::semantic::frame_type::ACCEPTED).
    ///
    /// They are `native` instead unless this is set, because some consumers refuse a whole request over a frame type
    /// that they don't know.
    pub fn all_frame_types(mut self, all: bool) -> Encoder {
        self.all_frame_types = all;
        self
    }

    /// Whether functions also have the names that the linker knows them by, where those differ: `_ZN3fooC1Ev` beside
    /// `foo::foo`.
    ///
    /// They are long and most consumers never show them, so they are left out unless this is set. What then differs in
    /// nothing else, as overloads of a C++ function do, is one function.
    pub fn linker_names(mut self, all: bool) -> Encoder {
        self.linker_names = all;
        self
    }

    /// Encodes a profile: one message, several if the limit wants it, none if it has no samples.
    pub fn encode(&mut self, profile: &Profile) -> Vec<Bytes> {
        let facts = self.facts(profile);
        let mut batch = Batch::new(profile, &facts, &self.resource, &mut self.dictionary);
        let (mut messages, mut parts) = (Vec::new(), Vec::new());
        parts.push(0..profile.samples().len());
        while let Some(part) = parts.pop().filter(|part| !part.is_empty()) {
            batch.fill(part.clone());
            let size = batch.size();
            if size > self.limit && part.len() > 1 {
                parts.extend(split(&part, size / self.limit.max(1) + 1).rev());
            } else {
                messages.push(batch.write().into());
            }
        }
        messages
    }

    fn facts(&mut self, profile: &Profile) -> Facts {
        let modules = profile.modules().iter().map(|module| self.identities.of(module)).collect();
        let kernel = BuildIds::without_file(self.resource.kernel_build_id(), kernel::NAME);
        let Encoder { all_frame_types, linker_names, .. } = *self;
        Facts { modules, kernel, all_frame_types, linker_names }
    }
}

/// Cuts a range into about so many parts of one length, two at least and none of them empty.
fn split(range: &Range<usize>, parts: usize) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *range;
    let step = range.len().div_ceil(parts.max(2)).max(1);
    (0..range.len().div_ceil(step)).map(move |part| {
        let start = start + part * step;
        start..(start + step).min(end)
    })
}
