//! Off-CPU profiles in the shape that Pyroscope and the schema require.

use std::time::Duration;

use ebpf_profiler_core::profile::{Profile, ProfileBuilder, SampleKind, Thread, Unit};
use ebpf_profiler_core::trace::{Frame, Stop, Trace};
use ebpf_profiler_otlp::{Resource, encode};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use prost::Message;

use crate::{check, consumers, fake};

/// Two stacks, one of them with two waits and one with the longest possible wait.
pub(crate) fn waits() -> Profile {
    let mut builder = ProfileBuilder::of_kinds([SampleKind::off_cpu()]);
    let process = builder.process(fake::process(1));
    let thread = builder.thread(Thread::new(process, 101, "worker"));
    for (address, time, nanos) in [(1, 10, 5_000), (2, 20, u64::MAX), (1, 30, 0)] {
        let frames = vec![Frame::Kernel { address: (1 << 63) + address }];
        let trace = Trace::new(frames, Stop::NoUserStack);
        builder.add_value(0, nanos, None, thread, &trace, fake::START + time);
    }
    fake::finish(builder)
}

/// CPU time, off-CPU time, allocated bytes, bytes in use and latencies of one stack in two
/// processes.
pub(crate) fn five_kinds() -> Profile {
    let kinds = [
        SampleKind::cpu(Duration::from_millis(10)),
        SampleKind::off_cpu(),
        SampleKind::new("malloc", Unit::Bytes),
        SampleKind::new("inuse_space", Unit::Bytes),
        SampleKind::new("block-latency", Unit::Nanoseconds),
    ];
    let mut builder = ProfileBuilder::of_kinds(kinds);
    for pid in [1, 2] {
        let process = builder.process(fake::process(pid));
        let thread = builder.thread(Thread::new(process, 100 + pid, "worker"));
        let trace = Trace::new(vec![Frame::Kernel { address: 1 << 63 }], Stop::NoUserStack);
        let values =
            [(2, 4_096), (0, 1), (1, 7_000), (0, 1), (2, 100), (3, 2_048), (4, 3_000_000), (4, 5_000)];
        for (kind, value) in values {
            builder.add_value(kind, value, None, thread, &trace, fake::START);
        }
    }
    fake::finish(builder)
}

#[test]
fn each_kind_has_profiles_with_its_own_type() {
    let bytes = encode(&five_kinds(), &Resource::new());
    let request = ExportProfilesServiceRequest::decode(bytes.clone()).unwrap();
    assert_eq!((check::schema(&request), request.encoded_len()), (vec![], bytes.len()));
    let strings = &request.dictionary.as_ref().unwrap().string_table;
    let seen: Vec<_> = check::profiles(&request)
        .map(|profile| {
            let kind = profile.sample_type.unwrap();
            let values: Vec<Vec<i64>> = profile.samples.iter().map(|it| it.values.clone()).collect();
            let text = |index: i32| strings[index as usize].as_str();
            (text(kind.type_strindex), text(kind.unit_strindex), profile.period, values)
        })
        .collect();
    let each = [
        ("samples", "count", 10_000_000, vec![vec![]]),
        ("off_cpu", "nanoseconds", 0, vec![vec![7_000]]),
        ("malloc", "bytes", 0, vec![vec![4_096, 100]]),
        ("inuse_space", "bytes", 0, vec![vec![2_048]]),
        ("block_latency", "nanoseconds", 0, vec![vec![3_000_000, 5_000]]),
    ];
    // A resource for each kind and process.
    assert_eq!(seen, each.iter().flat_map(|kind| [kind.clone(), kind.clone()]).collect::<Vec<_>>());
}

#[cfg(feature = "pprof")]
#[test]
fn each_kind_is_a_value_for_pprof() {
    let profile = crate::pprof::decode(&five_kinds());
    let text = |index: i64| profile.strings[index as usize].as_str();
    let types: Vec<_> = profile.sample_type.iter().map(|it| [text(it.kind), text(it.unit)]).collect();
    let expected = [
        ["samples", "count"],
        ["cpu", "nanoseconds"],
        ["off_cpu", "nanoseconds"],
        ["malloc", "bytes"],
        ["inuse_space", "bytes"],
        ["block_latency", "nanoseconds"],
    ];
    assert_eq!(types, expected);
    let values: Vec<_> = profile.sample.iter().map(|it| it.value.clone()).collect();
    assert_eq!(values, [[2, 20_000_000, 7_000, 4_196, 2_048, 3_005_000]; 2]);
}

#[test]
fn waits_have_values_and_times_and_no_period() {
    let bytes = encode(&waits(), &Resource::new());
    let request = ExportProfilesServiceRequest::decode(bytes.clone()).unwrap();
    assert_eq!((check::schema(&request), request.encoded_len()), (vec![], bytes.len()));
    assert_eq!(consumers::of_any_type(&request), [""; 0]);

    let strings = &request.dictionary.as_ref().unwrap().string_table;
    let profile = check::profiles(&request).next().unwrap();
    let kind = profile.sample_type.unwrap();
    let text = |index: i32| strings[index as usize].as_str();
    assert_eq!([text(kind.type_strindex), text(kind.unit_strindex)], ["off_cpu", "nanoseconds"]);
    assert_eq!((profile.period, profile.period_type), (0, Some(Default::default())));
    let seen: Vec<_> =
        profile.samples.iter().map(|it| (it.values.clone(), it.timestamps_unix_nano.clone())).collect();
    let at = |time| fake::START + time;
    assert_eq!(seen, [(vec![5_000, 0], vec![at(10), at(30)]), (vec![i64::MAX], vec![at(20)])]);
}

#[cfg(feature = "pprof")]
#[test]
fn waits_are_summed_for_pprof() {
    let profile = crate::pprof::decode(&waits());
    let text = |index: i64| profile.strings[index as usize].as_str();
    let types: Vec<_> = profile.sample_type.iter().map(|it| [text(it.kind), text(it.unit)]).collect();
    assert_eq!(types, [["samples", "count"], ["off_cpu", "nanoseconds"]]);
    assert_eq!((profile.period_type, profile.period), (None, 0));
    let values: Vec<_> = profile.sample.iter().map(|it| it.value.clone()).collect();
    assert_eq!(values, [[2, 5_000], [1, i64::MAX]]);
}
