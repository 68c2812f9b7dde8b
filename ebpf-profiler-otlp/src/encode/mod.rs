//! OTLP encoding of profiles.
//!
//! ```text
//!   Profile ──► by process ──► indices ──► one message, or several below the limit ──► Bytes
//!               samples        of strings, attributes, functions, mappings,
//!                              locations and stacks in the dictionary
//! ```
//!
//! Tables hold encoded elements: a part of the profile is encoded when it gets its index, and equal
//! parts are found by comparing bytes.
//!
//! Written by hand: building and encoding the structs that `prost` generates takes five times the
//! CPU time (`cargo bench -p benches --bench otlp_encode`), and allocates for each sample.

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
/// Each process has a resource, and in it a profile of one kind of samples; with several kinds,
/// each has resources and separate profiles. A profile without samples is encoded as no bytes, an
/// empty message that should not be sent.
///
/// To encode several profiles, or to limit the size of messages, use an [`Encoder`].
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

/// Encodes profiles as OTLP messages of limited size, and caches build ids between profiles.
///
/// The build ids of a file are read when a profile first contains it: its ELF headers, its notes
/// and 8 KiB.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_otlp::{Encoder, Resource};
/// # use std::time::{Duration, SystemTime};
/// # use ebpf_profiler_core::{profile::{Process, ProfileBuilder, Thread}, symbol::NoSymbols};
/// # use ebpf_profiler_core::trace::{Frame, Stop, Trace};
/// # let mut builder = ProfileBuilder::new(Duration::from_millis(50));
/// # let process = builder.process(Process::new(7));
/// # let thread = builder.thread(Thread::new(process, 7, "worker"));
/// # for address in 0..1_000 {
/// #     let frames = vec![Frame::Kernel { address: (1 << 63) + address }];
/// #     builder.add(thread, &Trace::new(frames, Stop::NoUserStack), 1_000);
/// # }
/// # let profile = builder.finish(SystemTime::now(), Duration::from_secs(5), |_| None, &mut NoSymbols);
///
/// let mut encoder = Encoder::new(Resource::of_this_machine()).limit(10_000);
/// let messages = encoder.encode(&profile);
/// assert!(messages.len() > 1); // each one is a complete `ProfilesData`
/// assert!(messages.iter().all(|message| message.len() <= 10_000));
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

/// Default size limit of messages: 4 MiB, the default limit of gRPC servers.
const LIMIT: usize = 4 << 20;

impl Encoder {
    /// Creates an encoder with the attributes of a machine, for messages of at most 4 MiB.
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

    /// Sets the size in bytes above which a message is split. Each part is complete in itself.
    ///
    /// A sample is never split, so a sample with very many timestamps can exceed the limit.
    pub fn limit(mut self, bytes: usize) -> Encoder {
        self.limit = bytes;
        self
    }

    /// Enables all frame types, such as `rust`, `luajit` or the type of a custom language. Default:
    /// only those that all consumers accept.
    ///
    /// The latter are `native`, `kernel`, `go`, `beam`, `cpython`, `dotnet`, `jvm`, `perl`, `php`,
    /// `ruby`, `v8js` and `abort-marker`. Other frames are `native` by default, because some
    /// consumers reject a whole request for an unknown type.
    pub fn all_frame_types(mut self, enabled: bool) -> Encoder {
        self.all_frame_types = enabled;
        self
    }

    /// Enables mangled names beside demangled ones: `_ZN3fooC1Ev` beside `foo::foo`. Default:
    /// omitted.
    ///
    /// Mangled names are long and most consumers do not show them. Without them, functions that
    /// differ in nothing else, such as overloads of a C++ function, are one function.
    pub fn linker_names(mut self, enabled: bool) -> Encoder {
        self.linker_names = enabled;
        self
    }

    /// Encodes a profile as one message, several if it exceeds [`limit`](Self::limit), none if it
    /// has no samples. A message of a single sample may still exceed the limit.
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

/// Splits a range into about `parts` parts of equal length, at least two and none empty.
fn split(range: &Range<usize>, parts: usize) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *range;
    let step = range.len().div_ceil(parts.max(2)).max(1);
    (0..range.len().div_ceil(step)).map(move |part| {
        let start = start + part * step;
        start..(start + step).min(end)
    })
}
