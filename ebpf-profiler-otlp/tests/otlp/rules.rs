//! Encoded profiles follow all rules, and the checks detect violations.

use std::process::Command;

use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::profile::{Process, ProfileBuilder, Thread};
use ebpf_profiler_core::symbol::{Symbol, Symbolizer};
use ebpf_profiler_core::trace::{Frame, Stop, Trace};
use ebpf_profiler_otlp::{Encoder, Resource, encode};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::profiles::v1development::{Link, ProfilesDictionary, Sample, Stack};
use prost::Message;
use std::time::{Duration, SystemTime};

use crate::fake::{self, SMALL};
use crate::{check, consumers};

fn messages(seed: u64, limit: usize) -> Vec<ExportProfilesServiceRequest> {
    let resource = Resource::new().with("host.name", "here").booted_at(Some(SystemTime::UNIX_EPOCH));
    let messages = Encoder::new(resource).limit(limit).encode(&fake::profile(seed, SMALL));
    messages.into_iter().map(|bytes| ExportProfilesServiceRequest::decode(bytes).unwrap()).collect()
}

fn one() -> ExportProfilesServiceRequest {
    messages(1, usize::MAX).remove(0)
}

#[test]
fn random_profiles_follow_the_rules() {
    for seed in 0..40 {
        for limit in [usize::MAX, 6_000] {
            for request in messages(seed, limit) {
                assert_eq!(check::schema(&request), [""; 0], "seed {seed}, limit {limit}");
                assert_eq!(consumers::all(&request), [""; 0], "seed {seed}, limit {limit}");
            }
        }
    }
}

#[test]
fn violated_rules_are_detected() {
    type Break = fn(&mut ExportProfilesServiceRequest);
    let breaks: [(&str, Break); 14] = [
        ("no dictionary", |it| it.dictionary = None),
        ("link 0", |it| tables(it).link_table[0] = Link { trace_id: vec![0; 16], span_id: vec![0; 8] }),
        ("stack 0", |it| tables(it).stack_table.clear()),
        ("location 9", |it| tables(it).stack_table[1].location_indices.push(9_999_999)),
        ("duplicate", |it| double(&mut tables(it).function_table)),
        ("duplicate", |it| double(&mut tables(it).attribute_table)),
        ("orphan", |it| tables(it).stack_table.push(Stack { location_indices: vec![1; 99] })),
        ("keys", |it| double(&mut sample(it).attribute_indices)),
        ("htlhash", |it| tables(it).mapping_table[1].attribute_indices.clear()),
        ("identity", |it| double(&mut it.resource_profiles[0].scope_profiles[0].profiles[0].samples)),
        ("timestamp", |it| sample(it).timestamps_unix_nano.push(1)),
        ("shape", |it| sample(it).values = vec![1, 2]),
        ("resource attribute", |it| {
            it.resource_profiles[0].resource.as_mut().unwrap().attributes[0].key.clear();
        }),
        ("mapping from", |it| {
            let mappings = &mut tables(it).mapping_table;
            mappings.iter_mut().for_each(|mapping| mapping.memory_limit = mapping.memory_limit.min(1));
        }),
    ];
    for (rule, broken) in breaks {
        let mut request = one();
        broken(&mut request);
        let complaints = check::schema(&request);
        assert!(complaints.iter().any(|complaint| complaint.contains(rule)), "{rule}: {complaints:?}");
    }
}

#[test]
fn violated_requirements_of_consumers_are_detected() {
    type Break = fn(&mut ExportProfilesServiceRequest);
    let breaks: [(&str, Break); 5] = [
        ("pyroscope: labels", |it| {
            let resource = it.resource_profiles[0].resource.as_mut().unwrap();
            resource.attributes = vec![resource.attributes[0].clone(); 30];
        }),
        ("parca", |it| it.resource_profiles[0].scope_profiles[0].profiles[0].period_type = None),
        ("devfiler", |it| tables(it).location_table[1].attribute_indices.clear()),
        ("pyroscope", |it| sample(it).values = vec![1]),
        ("elastic", |it| sample(it).timestamps_unix_nano.clear()),
    ];
    for (consumer, broken) in breaks {
        let mut request = one();
        broken(&mut request);
        let complaints = consumers::all(&request);
        assert!(
            complaints.iter().any(|complaint| complaint.starts_with(consumer)),
            "{consumer}: {complaints:?}"
        );
    }
}

fn tables(request: &mut ExportProfilesServiceRequest) -> &mut ProfilesDictionary {
    request.dictionary.as_mut().unwrap()
}

fn sample(request: &mut ExportProfilesServiceRequest) -> &mut Sample {
    &mut request.resource_profiles[0].scope_profiles[0].profiles[0].samples[0]
}

fn double<T: Clone>(list: &mut Vec<T>) {
    let last = list.last().unwrap().clone();
    list.push(last);
}

#[test]
fn frames_have_the_most_precise_enabled_type() {
    let types = |request: &ExportProfilesServiceRequest| {
        let tables = request.dictionary.as_ref().unwrap();
        let lists = tables.location_table.iter().map(|location| &location.attribute_indices);
        let mut types: Vec<String> = lists
            .flat_map(|list| crate::content::attributes(tables, list))
            .filter_map(|(key, value)| (key == "profile.frame.type").then_some(value))
            .collect();
        types.sort();
        types.dedup();
        types
    };
    let accepted = ["abort-marker", "cpython", "go", "jvm", "kernel", "native", "v8js"];
    assert_eq!(types(&one()), accepted);
    let mut encoder = Encoder::new(Resource::new()).all_frame_types(true);
    let bytes = encoder.encode(&fake::profile(1, SMALL)).remove(0);
    let precise = ExportProfilesServiceRequest::decode(bytes).unwrap();
    let mut all = [&accepted[..], &["luajit", "rust"]].concat();
    all.sort();
    assert_eq!(types(&precise), all);
}

#[test]
fn linker_names_are_optional() {
    let profile = fake::profile(1, SMALL);
    let count = |all| {
        let bytes = Encoder::new(Resource::new()).linker_names(all).encode(&profile).remove(0);
        let request = ExportProfilesServiceRequest::decode(bytes).unwrap();
        assert_eq!(check::schema(&request), [""; 0]);
        let functions = request.dictionary.unwrap().function_table;
        (functions.len(), functions.iter().filter(|it| it.system_name_strindex != 0).count())
    };
    let ((bare, none), (whole, half)) = (count(false), count(true));
    assert_eq!((bare, none), (whole, 0));
    assert!((whole / 4..whole).contains(&half), "{half} of {whole}");
}

/// Overloads of a C++ function differ only in the linker's name.
#[test]
fn functions_that_become_equal_are_one() {
    let functions = |names: &[(&'static str, &'static str)], all| {
        let mut builder = ProfileBuilder::new(Duration::from_millis(50));
        let process = builder.process(fake::process(1));
        let thread = builder.thread(Thread::new(process, 1, ""));
        let frames: Vec<Frame> =
            (1..=names.len() as u64).map(|at| Frame::Kernel { address: 1 << 63 | at }).collect();
        let trace = Trace::new(frames.as_slice(), Stop::NoUserStack);
        builder.add(thread, &trace, fake::START);
        let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(fake::START);
        let profile = builder.finish(start, Duration::from_secs(1), |_| None, &mut Named(names.to_vec()));
        let bytes = Encoder::new(Resource::new()).linker_names(all).encode(&profile).remove(0);
        let request = ExportProfilesServiceRequest::decode(bytes).unwrap();
        assert_eq!(check::schema(&request), [""; 0]);
        let tables = request.dictionary.unwrap();
        assert_eq!(tables.location_table.len(), 1 + names.len());
        tables.function_table.len() - 1
    };
    let overloads = [("f", "_Z1fi"), ("g", ""), ("f", "_Z1fd"), ("f", "")];
    assert_eq!((functions(&overloads, false), functions(&overloads, true)), (2, 4));
    // A function without another name keeps its linker name.
    assert_eq!(functions(&[("", "_Z1fi"), ("", "_Z1fd")], false), 2);
}

/// A symbolizer with one function per address.
struct Named(Vec<(&'static str, &'static str)>);

impl Symbolizer for Named {
    fn native(&mut self, _: &Module, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        for (number, (function, system)) in (0..addresses.len()).zip(&self.0) {
            name(number, &[Symbol::new(*function).with_system_name(*system)]);
        }
    }
}

#[test]
fn go_programs_have_their_build_id() {
    let request = one();
    let tables = request.dictionary.as_ref().unwrap();
    let mut lists = tables.mapping_table.iter().map(|mapping| &mapping.attribute_indices);
    let go = ("process.executable.build_id.go", fake::GO_BUILD_ID.to_owned());
    assert!(lists.any(|list| crate::content::attributes(tables, list).any(|pair| pair == go)));
}

/// Two traces that differ only in the number of missing frames are encoded equally.
#[test]
fn samples_that_become_equal_are_joined() {
    let mut builder = ProfileBuilder::new(Duration::from_millis(50));
    let process = builder.process(fake::process(1));
    let thread = builder.thread(Thread::new(process, 1, ""));
    let frames = [Frame::Kernel { address: 1 << 63 }; 2];
    for omitted in [1, 2, 1] {
        let trace = Trace::new(frames.as_slice(), Stop::TooDeep).with_gap(omitted, 1);
        builder.add(thread, &trace, fake::START + u64::from(omitted));
    }
    let bytes = encode(&fake::finish(builder), &Resource::new());
    let len = bytes.len();
    let mut request = ExportProfilesServiceRequest::decode(bytes).unwrap();
    assert_eq!((check::schema(&request), request.encoded_len()), (vec![], len));
    assert_eq!(sample(&mut request).timestamps_unix_nano.len(), 3);
}

/// A custom symbolizer may return a function without texts.
#[test]
fn symbol_without_texts_is_no_function() {
    let mut builder = ProfileBuilder::new(Duration::from_millis(50));
    let process = builder.process(fake::process(1));
    let thread = builder.thread(Thread::new(process, 1, ""));
    let frames = [Frame::Kernel { address: 1 << 63 }];
    let trace = Trace::new(frames.as_slice(), Stop::NoUserStack);
    builder.add(thread, &trace, fake::START);
    let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(fake::START);
    let profile = builder.finish(start, Duration::from_secs(1), |_| None, &mut Silent);
    let mut request = ExportProfilesServiceRequest::decode(encode(&profile, &Resource::new())).unwrap();
    assert_eq!(check::schema(&request), [""; 0]);
    assert_eq!(tables(&mut request).location_table[1].lines, []);
}

struct Silent;

impl Symbolizer for Silent {
    fn native(&mut self, _: &Module, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

    fn kernel(&mut self, _: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        name(0, &[Symbol::default()]);
    }
}

/// Timestamps come from another clock than the profile's start, and the time of day may change in
/// between.
#[test]
fn timestamp_outside_extends_the_profile() {
    const HOUR: u64 = 3_600_000_000_000;
    let end = fake::START + fake::DURATION;
    for times in
        [[fake::START - 5, end], [fake::START - HOUR, end - 1], [fake::START, end + HOUR], [0, u64::MAX - 1]]
    {
        let mut builder = ProfileBuilder::new(Duration::from_millis(50));
        let process = builder.process(fake::process(1));
        let thread = builder.thread(Thread::new(process, 1, ""));
        let trace = Trace::new([].as_slice(), Stop::NoUserStack);
        times.iter().for_each(|&time| builder.add(thread, &trace, time));
        let bytes = encode(&fake::finish(builder), &Resource::new());
        let mut request = ExportProfilesServiceRequest::decode(bytes).unwrap();
        assert_eq!(check::schema(&request), [""; 0]);
        assert_eq!(sample(&mut request).timestamps_unix_nano, times);
    }
}

/// A program with long texts must not make a consumer reject the profiles of others.
#[test]
fn long_texts_are_cut() {
    let mut builder = ProfileBuilder::new(Duration::from_millis(50));
    // The limit is inside the last character of these.
    for (pid, executable) in [(1, "/ü".repeat(1_300)), (2, format!("/{}", "🦀".repeat(1_000)))] {
        let mut process = Process::new(pid);
        process.executable = executable.into();
        let process = builder.process(process);
        let thread = builder.thread(Thread::new(process, pid, ""));
        let trace = Trace::new([].as_slice(), Stop::NoUserStack);
        builder.add(thread, &trace, fake::START);
    }
    let resource = Resource::new().with("team", "x".repeat(2_049));
    let bytes = encode(&fake::finish(builder), &resource);
    let request = ExportProfilesServiceRequest::decode(bytes).unwrap();
    assert_eq!((check::schema(&request), consumers::all(&request)), (vec![], vec![]));
    let lengths = |key: &str| {
        let resources = request.resource_profiles.iter().map(|it| it.resource.as_ref().unwrap());
        let pairs = resources.flat_map(|resource| &resource.attributes).filter(|pair| pair.key == key);
        pairs.map(|pair| pair.value.as_ref().unwrap().encoded_len() - 3).collect::<Vec<_>>()
    };
    assert_eq!(lengths("process.executable.path"), [2_047, 2_045]);
    assert_eq!(lengths("team"), [2_048; 2]);
}

/// Runs the reference checker that `PROFCHECK` names.
#[test]
fn reference_checker_accepts_the_messages() {
    let Ok(checker) = std::env::var("PROFCHECK") else {
        eprintln!("skipped: PROFCHECK doesn't name the reference checker");
        return;
    };
    let profiles = (0..20)
        .map(|seed| fake::profile(seed, SMALL))
        .chain([crate::off_cpu::waits(), crate::off_cpu::five_kinds()]);
    for (seed, profile) in profiles.enumerate() {
        let bytes = encode(&profile, &Resource::new());
        let path = std::env::temp_dir().join(format!("profcheck-{}-{seed}.otlp", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let output =
            Command::new(&checker).args(["-check-dupes", "-check-orphans"]).arg(&path).output().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(output.status.success(), "seed {seed}: {output:?}");
    }
}
