//! pprof profiles, read by an independent decoder and by `go tool pprof`.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;

use ebpf_profiler_core::profile::{Labels, Profile, ProfileBuilder, SampleLabel, Thread};
use ebpf_profiler_core::trace::{Frame, Stop, Trace};
use ebpf_profiler_otlp::{pprof, register_formats};
use flate2::read::GzDecoder;
use prost::Message;
use std::time::Duration;

use crate::content;
use crate::fake::{self, SMALL};

/// The used part of `perftools.profiles`.
pub(crate) mod wire {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(crate) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(crate) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(crate) mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub(crate) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(crate) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(crate) strings: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(crate) time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub(crate) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(crate) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(crate) period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub(crate) comment: Vec<i64>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(crate) kind: i64,
        #[prost(int64, tag = "2")]
        pub(crate) unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(crate) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(crate) value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub(crate) label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Label {
        #[prost(int64, tag = "1")]
        pub(crate) key: i64,
        #[prost(int64, tag = "2")]
        pub(crate) text: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Mapping {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(uint64, tag = "2")]
        pub(crate) start: u64,
        #[prost(uint64, tag = "3")]
        pub(crate) limit: u64,
        #[prost(uint64, tag = "4")]
        pub(crate) offset: u64,
        #[prost(int64, tag = "5")]
        pub(crate) filename: i64,
        #[prost(int64, tag = "6")]
        pub(crate) build_id: i64,
        #[prost(bool, tag = "7")]
        pub(crate) has_functions: bool,
        #[prost(bool, tag = "8")]
        pub(crate) has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub(crate) has_line_numbers: bool,
        #[prost(bool, tag = "10")]
        pub(crate) has_inline_frames: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Location {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(uint64, tag = "2")]
        pub(crate) mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub(crate) address: u64,
        #[prost(message, repeated, tag = "4")]
        pub(crate) line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Line {
        #[prost(uint64, tag = "1")]
        pub(crate) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) line: i64,
        #[prost(int64, tag = "3")]
        pub(crate) column: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Function {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) name: i64,
        #[prost(int64, tag = "3")]
        pub(crate) system_name: i64,
        #[prost(int64, tag = "4")]
        pub(crate) filename: i64,
        #[prost(int64, tag = "5")]
        pub(crate) start_line: i64,
    }
}

pub(crate) fn decode(profile: &Profile) -> wire::Profile {
    let mut bytes = Vec::new();
    GzDecoder::new(&pprof(profile)[..]).read_to_end(&mut bytes).unwrap();
    let decoded = wire::Profile::decode(&bytes[..]).unwrap();
    assert_eq!(decoded.encoded_len(), bytes.len(), "unknown fields");
    decoded
}

/// Counts by thread and stack of function names with addresses.
type Counts = BTreeMap<(Vec<String>, Vec<String>), u64>;

fn counts(profile: &wire::Profile) -> Counts {
    let mut counts = Counts::new();
    for sample in &profile.sample {
        let stack = sample.location_id.iter().map(|&id| describe(profile, id)).collect();
        let string = |index: i64| &profile.strings[index as usize];
        let label = |it: &wire::Label| format!("{}={}", string(it.key), string(it.text));
        let mut who: Vec<String> = sample.label.iter().map(label).collect();
        who.sort();
        assert!(counts.insert((who, stack), sample.value[0] as u64).is_none(), "a sample twice");
        assert_eq!(sample.value[1], sample.value[0] * profile.period);
    }
    counts
}

/// Describes a location like [`content`], without the parts that pprof has no field for.
fn describe(profile: &wire::Profile, id: u64) -> String {
    let location = &profile.location[id as usize - 1];
    let string = |index: i64| profile.strings[index as usize].as_str();
    let lines = location.line.iter().map(|line| {
        let it = &profile.function[line.function_id as usize - 1];
        let system = if it.system_name == it.name { "" } else { string(it.system_name) };
        let place = format!("{}:{}:{}:{}", string(it.filename), it.start_line, line.line, line.column);
        format!(" {}/{system}@{place}", string(it.name))
    });
    let lines: String = lines.collect();
    if location.mapping_id == 0
        && location.address == 0
        && lines.starts_with(" [")
        && !lines.starts_with(" [unknown]")
    {
        return lines[1..lines.find('/').unwrap()].to_owned();
    }
    let file = location.mapping_id.checked_sub(1).map(|index| &profile.mapping[index as usize]);
    let file = file.map(|it| match string(it.filename) {
        "[kernel]" => "[kernel]+".into(),
        path => format!("{path}({})+", string(it.build_id)),
    });
    format!("{}{:#x}{lines}", file.unwrap_or_default(), location.address)
}

/// Returns the counts of a profile, without the parts that pprof has no field for.
fn expected(profile: &Profile) -> Counts {
    let mut counts = Counts::new();
    for ((mut who, stack), times) in content::of_profile(profile) {
        who.retain(|label| !label.starts_with("process.executable.path="));
        let plain = |line: String| {
            let line = line.replace(" guessed", "");
            line.split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or(line)
        };
        *counts.entry((who, stack.into_iter().map(plain).collect())).or_default() += times.len() as u64;
    }
    counts
}

#[test]
fn random_profiles_are_decoded_to_equal_ones() {
    for seed in 0..40 {
        let profile = fake::profile(seed, SMALL);
        assert_eq!(counts(&decode(&profile)), expected(&profile), "seed {seed}");
    }
}

#[test]
fn ids_are_valid_and_tables_without_duplicates() {
    let profile = decode(&fake::profile(1, SMALL));
    fn distinct<T: Message + Clone>(elements: &[T], set_id: impl Fn(&mut T) -> u64) {
        let mut seen = HashSet::new();
        for (element, number) in elements.iter().zip(1..) {
            let mut element = element.clone();
            assert_eq!(set_id(&mut element), number);
            assert!(seen.insert(element.encode_to_vec()), "number {number} twice");
        }
    }
    distinct(&profile.location, |it| std::mem::take(&mut it.id));
    distinct(&profile.function, |it| std::mem::take(&mut it.id));
    distinct(&profile.mapping, |it| std::mem::take(&mut it.id));
    assert_eq!(profile.strings[0], "");
    assert_eq!(profile.strings.iter().collect::<HashSet<_>>().len(), profile.strings.len());
    assert!(profile.mapping.iter().any(|it| it.has_functions && it.has_filenames && it.has_inline_frames));
}

#[test]
fn head_has_times_types_and_losses() {
    let mut builder = ProfileBuilder::new(Duration::from_millis(50));
    builder.record_loss("ring full", 3);
    let profile = decode(&fake::finish(builder));
    let text = |it: wire::ValueType| [it.kind, it.unit].map(|index| profile.strings[index as usize].as_str());
    let types: Vec<_> = profile.sample_type.iter().map(|&it| text(it)).collect();
    assert_eq!(types, [["samples", "count"], ["cpu", "nanoseconds"]]);
    assert_eq!((profile.period_type.map(text), profile.period), (Some(["cpu", "nanoseconds"]), 50_000_000));
    assert_eq!((profile.time_nanos, profile.duration_nanos), (fake::START as i64, fake::DURATION as i64));
    assert_eq!(profile.strings[profile.comment[0] as usize], "lost: 3 ring full");
}

/// A file that is removed when the test ends.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Kernel addresses 3 and 6 times 3 are in `function_1` and `function_2`: see `fake`.
fn known_workload() -> Profile {
    let mut builder = ProfileBuilder::new(Duration::from_millis(10));
    let process = builder.process(fake::process(1));
    let mut thread = Thread::new(process, 101, "worker");
    thread.labels =
        Labels::default().with(SampleLabel::new("tenant", "blue")).with(SampleLabel::new("request", 4711));
    let thread = builder.thread(thread);
    for (address, ticks) in [(0xffff_ffff_0000_0001, 75), (0xffff_ffff_0000_0011, 25)] {
        let frames = vec![Frame::Kernel { address }];
        let trace = Trace::new(frames, Stop::NoUserStack);
        (0..ticks).for_each(|tick| builder.add(thread, &trace, fake::START + tick));
    }
    fake::finish(builder)
}

/// Runs `go tool pprof` on a profile and returns its output.
fn go_tool_pprof(profile: &Profile, test: &str, arguments: &[&str]) -> String {
    let file = File(std::env::temp_dir().join(format!("{test}-{}.pb.gz", std::process::id())));
    std::fs::write(&file.0, pprof(profile)).unwrap();
    let output = Command::new("go").args(["tool", "pprof"]).args(arguments).arg(&file.0).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn go_tool_pprof_reads_a_profile() {
    test_needs::programs!("go");
    let run = |arguments: &[&str]| go_tool_pprof(&known_workload(), "known", arguments);
    let top = run(&["-top"]);
    let share = |text: &str| top.lines().any(|line| line.contains(text));
    assert!(share("750ms 75.00%") && share("250ms 25.00%"), "{top}");
    let tags = run(&["-tags"]);
    for tag in ["process.pid", "program-1", "thread.name", "worker", "tenant", "blue", "request", "4711"] {
        assert!(tags.contains(tag), "{tag}: {tags}");
    }
    assert!(run(&["-peek", "function_"]).contains("function_"));
    assert!(run(&["-sample_index=samples", "-top"]).contains("75.00%"));
}

/// Both processes together, in the unit of each kind.
#[test]
fn go_tool_pprof_shows_the_total_of_each_kind() {
    test_needs::programs!("go");
    for (kind, total) in [
        ("samples", "4 total"),
        ("cpu", "40ms total"),
        ("off_cpu", "14us total"),
        ("malloc", "8.20kB total"),
        ("inuse_space", "4kB total"),
        ("block_latency", "6.01ms total"),
    ] {
        let index = format!("-sample_index={kind}");
        let top = go_tool_pprof(&crate::off_cpu::five_kinds(), kind, &[&index, "-top"]);
        assert!(top.contains(&format!("Type: {kind}\n")) && top.contains(total), "{top}");
    }
}

/// The registered formats write what [`pprof`] returns, compressed or not.
#[test]
fn go_tool_pprof_reads_files_by_their_ending() {
    test_needs::programs!("go");
    register_formats();
    for ending in ["pb.gz", "pb"] {
        let file = File(std::env::temp_dir().join(format!("written-{}.{ending}", std::process::id())));
        crate::off_cpu::five_kinds().write(&file.0).unwrap();
        let first = std::fs::read(&file.0).unwrap()[0];
        assert_eq!(first == 0x1f, ending == "pb.gz", "gzip begins with 1f, a message with a field");
        let output = Command::new("go").args(["tool", "pprof", "-raw"]).arg(&file.0).output().unwrap();
        let raw = String::from_utf8(output.stdout).unwrap();
        let kinds = "samples/count cpu/nanoseconds off_cpu/nanoseconds malloc/bytes inuse_space/bytes \
            block_latency/nanoseconds";
        assert!(
            raw.contains(kinds) && raw.contains("2   20000000       7000       4196       2048    3005000"),
            "{raw}"
        );
    }
}
