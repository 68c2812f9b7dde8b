//! An independent decoder reads back what the profile said.

use bytes::Bytes;
use ebpf_profiler_core::profile::ProfileBuilder;
use ebpf_profiler_otlp::{Encoder, Resource, encode};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use prost::Message;
use std::time::Duration;

use crate::content;
use crate::fake::{self, SMALL, Shape};

/// With everything that the profile says.
fn encoder(limit: usize) -> Encoder {
    Encoder::new(Resource::new()).limit(limit).linker_names(true)
}

fn decode(bytes: &Bytes) -> ExportProfilesServiceRequest {
    ExportProfilesServiceRequest::decode(bytes.clone()).expect("what we write decodes")
}

#[test]
fn random_profiles_come_back_equal() {
    for seed in 0..40 {
        let profile = fake::profile(seed, SMALL);
        let request = decode(&encoder(usize::MAX).encode(&profile)[0]);
        assert_eq!(content::of_requests(&[request]), content::of_profile(&profile), "seed {seed}");
    }
}

#[test]
fn the_bytes_are_those_of_the_reference() {
    for seed in 0..20 {
        let bytes = encode(&fake::profile(seed, SMALL), &Resource::new());
        // Fields may stand in any order, so only their sizes compare.
        assert_eq!(decode(&bytes).encoded_len(), bytes.len(), "seed {seed}");
    }
}

#[test]
fn the_same_profile_gives_the_same_bytes() {
    let resource = Resource::new().with("host.name", "here");
    let first = encode(&fake::profile(7, SMALL), &resource);
    let mut encoder = Encoder::new(resource);
    for _ in 0..3 {
        assert_eq!(encoder.encode(&fake::profile(7, SMALL)), [&first[..]]);
        encoder.encode(&fake::profile(8, SMALL));
    }
}

#[test]
fn what_is_split_is_whole_together() {
    for (seed, limit) in [(1, 1), (2, 3_000), (3, 5_000), (4, 8_000), (5, 12_000), (6, 15_000)] {
        let profile = fake::profile(seed, SMALL);
        let messages = encoder(limit).encode(&profile);
        assert!(messages.len() > 1, "limit {limit}");
        let requests: Vec<_> = messages.iter().map(decode).collect();
        assert_eq!(content::of_requests(&requests), content::of_profile(&profile), "seed {seed}");
        let samples = |it: &ExportProfilesServiceRequest| {
            let scopes = it.resource_profiles.iter().flat_map(|resource| &resource.scope_profiles);
            scopes.flat_map(|scope| &scope.profiles).map(|profile| profile.samples.len()).sum::<usize>()
        };
        for (message, request) in messages.iter().zip(&requests) {
            assert!(message.len() <= limit || samples(request) == 1, "{} > {limit}", message.len());
        }
    }
}

#[test]
fn nothing_gives_nothing() {
    let empty = fake::finish(ProfileBuilder::new(Duration::from_millis(50)));
    assert!(encode(&empty, &Resource::new()).is_empty());
    assert!(Encoder::new(Resource::new()).encode(&empty).is_empty());
}

#[test]
fn a_large_profile_comes_back_equal() {
    let shape = Shape {
        processes: 20,
        threads: 100,
        modules: 30,
        addresses: 5_000,
        traces: 500,
        depth: 40,
        ticks: 4_000,
    };
    let profile = fake::profile(1, shape);
    let messages = encoder(100_000).encode(&profile);
    let requests: Vec<_> = messages.iter().map(decode).collect();
    assert_eq!(content::of_requests(&requests), content::of_profile(&profile));
}
