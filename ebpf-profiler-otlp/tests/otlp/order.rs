//! The order of table elements and samples, chosen for size.

use std::time::Duration;

use ebpf_profiler_core::process::ModuleId;
use ebpf_profiler_core::profile::{Process, Profile, ProfileBuilder, Thread};
use ebpf_profiler_core::trace::{Found, Frame, Stop, Trace};
use ebpf_profiler_otlp::{Encoder, Resource};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::profiles::v1development::{Location, ProfilesDictionary};
use prost::Message;

use crate::fake;

const PROCESSES: u64 = 2;
const STACKS: u64 = 400;
const SHARED: u64 = 100;

/// Two processes; each sample has a distinct leaf, by descending address, and ten frames that all
/// samples share, which first occur late.
fn profile() -> Profile {
    let mut builder = ProfileBuilder::new(Duration::from_millis(50));
    let threads: Vec<_> = (0..PROCESSES as u32)
        .map(|number| {
            let process = builder.process(Process::new(number + 1));
            builder.thread(Thread::new(process, number + 1, ""))
        })
        .collect();
    for tick in 0..STACKS {
        let frame = |address| Frame::Native { module: ModuleId(4), address, found: Found::Exactly };
        let mut frames = vec![frame(0x10_0000 - tick * 16)];
        if tick > STACKS / 2 {
            frames.extend((0..10).map(|depth| frame(0x2000 + (tick * 10 + depth) % SHARED * 16)));
        }
        let trace = Trace::new(frames, Stop::Root);
        builder.add(threads[(tick % PROCESSES) as usize], &trace, fake::START + tick);
    }
    fake::finish(builder)
}

fn messages(limit: usize) -> Vec<ExportProfilesServiceRequest> {
    let messages = Encoder::new(Resource::new()).limit(limit).encode(&profile());
    messages.into_iter().map(|bytes| ExportProfilesServiceRequest::decode(bytes).unwrap()).collect()
}

fn tables(request: &ExportProfilesServiceRequest) -> &ProfilesDictionary {
    request.dictionary.as_ref().unwrap()
}

fn places(locations: &[Location]) -> Vec<(i32, u64)> {
    locations.iter().map(|location| (location.mapping_index, location.address)).collect()
}

#[test]
fn most_frequent_locations_have_the_smallest_indices() {
    let request = messages(usize::MAX).remove(0);
    let locations = &tables(&request).location_table;
    assert_eq!(locations.len() as u64, 1 + STACKS + SHARED);
    let is_shared = |location: &&Location| location.address < 0x2000 + SHARED * 16;
    assert_eq!(locations[1..128].iter().filter(is_shared).count() as u64, SHARED);
}

#[test]
fn locations_are_ordered_by_address() {
    for limit in [usize::MAX, 10_000] {
        for request in messages(limit) {
            let places = places(&tables(&request).location_table);
            assert!(places.len() > 130, "some are not among the most frequent ones");
            // The order restarts once, after the most frequent ones.
            assert!(places.windows(2).filter(|pair| pair[0] > pair[1]).count() <= 1, "{places:?}");
        }
    }
}

#[test]
fn samples_have_ascending_stacks() {
    let request = messages(usize::MAX).remove(0);
    let scopes = request.resource_profiles.iter().flat_map(|resource| &resource.scope_profiles);
    let samples = scopes.flat_map(|scope| &scope.profiles).flat_map(|profile| &profile.samples);
    let numbers: Vec<i32> = samples.map(|sample| sample.stack_index).collect();
    assert_eq!(numbers, (1..=STACKS as i32).collect::<Vec<_>>());
}
