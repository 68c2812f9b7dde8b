//! Encoded profiles, read by an independent decoder.

use bytes::Bytes;
use ebpf_profiler_core::profile::ProfileBuilder;
use ebpf_profiler_otlp::{Encoder, Resource, encode};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use prost::Message;
use std::time::Duration;

use crate::content;
use crate::fake::{self, SMALL, Shape};

/// Returns an encoder with all options enabled.
fn encoder(limit: usize) -> Encoder {
    Encoder::new(Resource::new()).limit(limit).linker_names(true)
}

fn decode(bytes: &Bytes) -> ExportProfilesServiceRequest {
    ExportProfilesServiceRequest::decode(bytes.clone()).expect("what we write decodes")
}

#[test]
fn random_profiles_are_decoded_to_equal_ones() {
    for seed in 0..40 {
        let profile = fake::profile(seed, SMALL);
        let request = decode(&encoder(usize::MAX).encode(&profile)[0]);
        assert_eq!(content::of_requests(&[request]), content::of_profile(&profile), "seed {seed}");
    }
}

#[test]
fn sizes_equal_those_of_the_reference_encoder() {
    for seed in 0..20 {
        let bytes = encode(&fake::profile(seed, SMALL), &Resource::new());
        // The order of fields differs, so only sizes are compared.
        assert_eq!(decode(&bytes).encoded_len(), bytes.len(), "seed {seed}");
    }
}

#[test]
fn equal_profiles_are_encoded_equally() {
    let resource = Resource::new().with("host.name", "here");
    let first = encode(&fake::profile(7, SMALL), &resource);
    let mut encoder = Encoder::new(resource);
    for _ in 0..3 {
        assert_eq!(encoder.encode(&fake::profile(7, SMALL)), [&first[..]]);
        encoder.encode(&fake::profile(8, SMALL));
    }
}

#[test]
fn split_messages_together_contain_the_profile() {
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
fn empty_profile_is_encoded_as_no_message() {
    let empty = fake::finish(ProfileBuilder::new(Duration::from_millis(50)));
    assert!(encode(&empty, &Resource::new()).is_empty());
    assert!(Encoder::new(Resource::new()).encode(&empty).is_empty());
}

#[test]
fn large_profile_is_decoded_to_an_equal_one() {
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
