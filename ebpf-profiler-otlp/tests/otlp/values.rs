//! The same totals in all formats, for each kind of samples, with and without the weights of a
//! budget.

use std::collections::BTreeMap;
use std::time::Duration;

use ebpf_profiler_core::profile::{Profile, ProfileBuilder, SampleKind, Thread, Tree, Unit};
use ebpf_profiler_core::sink::folded;
use ebpf_profiler_core::trace::{Frame, Stop, Trace};
use ebpf_profiler_otlp::{Encoder, Resource, encode};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::profiles::v1development::Profile as Encoded;
use prost::Message;

use crate::{check, consumers, fake};

const PERIOD: Duration = Duration::from_millis(10);

/// The kinds, the values of events by stack, and the factor from a value to pprof's.
fn rows() -> Vec<(SampleKind, Vec<[u64; 3]>, u64)> {
    let period = PERIOD.as_nanos() as u64;
    let bytes = || SampleKind::new("malloc", Unit::Bytes);
    vec![
        (SampleKind::cpu(PERIOD), vec![[1, 1, 1], [1, 1, 1]], period),
        (SampleKind::cpu(PERIOD), vec![[7, 7, 7]], period),
        (SampleKind::cpu(PERIOD), vec![[1, 1, 4], [16, 4, 1], [4, 1, 16]], period),
        (SampleKind::off_cpu(), vec![[1, 1, 1]], 1),
        (SampleKind::off_cpu(), vec![[5_000, 1, 900], [0, 5_000, 5_000]], 1),
        (bytes(), vec![[64, 4_096, 64]], 1),
        (SampleKind::new("page-faults", Unit::Count), vec![[3, 1, 3]], 1),
    ]
}

/// A profile of one thread with a stack for each row of values.
fn profile(kinds: Vec<(SampleKind, Vec<[u64; 3]>)>) -> Profile {
    let mut builder = ProfileBuilder::of_kinds(kinds.iter().map(|(kind, _)| kind.clone()));
    let process = builder.process(fake::process(1));
    let thread = builder.thread(Thread::new(process, 101, "worker"));
    let mut time = fake::START;
    for (index, (_, stacks)) in kinds.iter().enumerate() {
        for (address, values) in stacks.iter().enumerate() {
            let frames = vec![Frame::Kernel { address: (1 << 63) + address as u64 }];
            let trace = Trace::new(frames, Stop::NoUserStack);
            for &value in values {
                builder.add_value(index, value, Some(0), thread, &trace, time);
                time += 1;
            }
        }
    }
    fake::finish(builder)
}

/// Returns the sum of the values of all samples; of timestamps times the period without values.
fn total(profiles: &[&Encoded]) -> u64 {
    let of = |profile: &&Encoded| {
        let each = profile.samples.iter().map(|sample| match sample.values.as_slice() {
            [] => sample.timestamps_unix_nano.len() as u64 * profile.period.max(1) as u64,
            values => values.iter().sum::<i64>() as u64,
        });
        each.sum::<u64>()
    };
    profiles.iter().map(of).sum()
}

#[test]
fn all_formats_have_the_same_total() {
    for (kind, values, factor) in rows() {
        let expected: u64 = values.iter().flatten().sum();
        let profile = profile(vec![(kind.clone(), values.clone())]);
        let row = format!("{kind}: {values:?}");
        assert_eq!((profile.total(), Tree::new(&profile).total()), (expected, expected), "{row}");
        assert_eq!(profile.diff(&profile).changes().iter().map(|it| it.values().0).sum::<u64>(), expected);

        let mut text = Vec::new();
        folded::write(&profile, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let numbers = text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        assert_eq!(numbers.sum::<u64>(), expected, "{row}");

        let request = decoded(&encode(&profile, &Resource::new()));
        let profiles: Vec<_> = check::profiles(&request).collect();
        assert_eq!(total(&profiles), expected * factor, "{row}");
        if kind.is_cpu() {
            // The only shape that all consumers accept.
            assert!(profiles.iter().flat_map(|it| &it.samples).all(|it| it.values.is_empty()), "{row}");
        }
        assert_eq!((check::schema(&request), consumers::of_any_type(&request)), (vec![], vec![]), "{row}");

        #[cfg(feature = "pprof")]
        {
            let decoded = crate::pprof::decode(&profile);
            let sum = |index: usize| decoded.sample.iter().map(|it| it.value[index] as u64).sum::<u64>();
            assert_eq!(sum(1), expected * factor, "{row}");
            // Consumers multiply by the period, too.
            assert!(!kind.is_cpu() || sum(0) * factor == sum(1), "{row}");
        }
    }
}

#[test]
fn ticks_of_another_weight_are_in_a_profile_with_its_period() {
    let ticks = vec![[1, 1, 4], [16, 4, 1], [4, 1, 16]];
    let profile = profile(vec![(SampleKind::cpu(PERIOD), ticks), (SampleKind::off_cpu(), vec![[9, 9, 9]])]);
    let request = decoded(&encode(&profile, &Resource::new()));
    let seen: BTreeMap<i64, usize> = check::profiles(&request)
        .map(|it| (it.period, it.samples.iter().map(|sample| sample.timestamps_unix_nano.len()).sum()))
        .collect();
    assert_eq!(seen, BTreeMap::from([(0, 3), (10_000_000, 4), (40_000_000, 3), (160_000_000, 2)]));
}

/// Each part of a message that is too long keeps the weights.
#[test]
fn parts_of_a_message_have_the_total_of_the_whole() {
    let stacks: Vec<[u64; 3]> = (0..200).map(|index| [1, 1 + index % 3, 5]).collect();
    let expected: u64 = stacks.iter().flatten().sum();
    let profile = profile(vec![(SampleKind::cpu(PERIOD), stacks)]);
    let messages = Encoder::new(Resource::new()).limit(3_000).encode(&profile);
    assert!(messages.len() > 2 && messages.iter().all(|message| message.len() <= 3_000));
    let totals = messages.iter().map(|message| {
        let request = decoded(message);
        let profiles: Vec<_> = check::profiles(&request).collect();
        assert_eq!(check::schema(&request), [""; 0]);
        total(&profiles)
    });
    assert_eq!(totals.sum::<u64>(), expected * PERIOD.as_nanos() as u64);
}

fn decoded(bytes: &[u8]) -> ExportProfilesServiceRequest {
    let request = ExportProfilesServiceRequest::decode(bytes).unwrap();
    assert_eq!(request.encoded_len(), bytes.len(), "unknown fields");
    request
}
