//! Files for the Firefox Profiler and speedscope: every event, with its stack and value.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use ebpf_profiler_core::profile::{
    Labels, Process, Profile, ProfileBuilder, SampleKind, SampleLabel, Thread, Unit,
};
use ebpf_profiler_core::sink::Format;
use ebpf_profiler_core::symbol::NoSymbols;
use ebpf_profiler_core::testing;
use ebpf_profiler_core::trace::{Frame, Stop, Trace};

use crate::json::{self, Json};
use crate::random::on_random_profiles;
use crate::written;

/// Values by kind, thread and stack.
type Values = BTreeMap<(String, String, String), f64>;

const START: u64 = 1_000_000_000;

/// Four kinds under a budget, in a thread with two sets of labels and in a process whose id is used
/// again.
fn kinds() -> Profile {
    let kinds = [
        SampleKind::cpu(Duration::from_millis(10)),
        SampleKind::off_cpu(),
        SampleKind::new("malloc", Unit::Bytes),
        SampleKind::new("page-faults", Unit::Count),
    ];
    let mut builder = ProfileBuilder::of_kinds(kinds);
    for created in [1, 2] {
        let mut process = Process::new(7);
        (process.created, process.executable) = (created, "/usr/bin/cat".into());
        let process = builder.process(process);
        for request in [1, 2] {
            let mut thread = Thread::new(process, 7, "cat");
            thread.labels = Labels::default().with(SampleLabel::new("request", request));
            let thread = builder.thread(thread);
            let trace = Trace::new(vec![Frame::Kernel { address: 1 << 63 }], Stop::NoUserStack);
            // The second event of CPU time is earlier, and stands for three ticks.
            for (kind, value, time) in [(0, 1, 20), (0, 3, 10), (1, 2_500_001, 30), (2, 4096, 30), (3, 5, 30)]
            {
                builder.add_value(kind, value, None, thread, &trace, START + time * 1_000_000);
            }
        }
    }
    let none = Trace::new([].as_slice(), Stop::NoUserStack);
    let process = builder.process(Process::new(8));
    let thread = builder.thread(Thread::new(process, 9, "kworker"));
    builder.add_value(0, 1, None, thread, &none, START);
    builder.record_loss("ring full", 3);
    let start = UNIX_EPOCH + Duration::from_secs(1);
    builder.finish(start, Duration::from_millis(100), |_| None, &mut NoSymbols)
}

fn expected(profile: &Profile, factor: impl Fn(&SampleKind) -> f64, empty: &str) -> Values {
    let mut values = Values::new();
    for sample in profile.samples() {
        let calls: Vec<String> = sample.trace().calls().map(|call| call.to_string()).collect();
        let stack = if calls.is_empty() { empty.to_owned() } else { calls.join(";") };
        let key = (sample.kind().name().to_owned(), sample.thread().name.to_string(), stack);
        *values.entry(key).or_default() += sample.value() as f64 * factor(sample.kind());
    }
    values
}

/// Checks that all columns of a table have its length.
fn check_table<'j>(table: &'j Json, name: &str, optional: &[&str]) -> &'j Json {
    let Json::Object(columns) = table else { unreachable!("{name} is no table") };
    let len = table.get("length").index();
    for (column, values) in columns {
        match values {
            Json::List(values) => assert_eq!(values.len(), len, "{name}.{column}"),
            _ if column == "length" || optional.contains(&&**column) => {}
            other => unreachable!("{name}.{column} is {other:?}"),
        }
    }
    table
}

/// Reads a file of the Firefox Profiler as its documentation says.
fn firefox(profile: &Profile) -> Values {
    let file = json::parse(&written(profile, Format::FIREFOX));
    let shared = file.get("shared");
    let table = |name: &'static str| check_table(shared.get(name), name, &[]);
    let [stacks, frames, functions] = ["stackTable", "frameTable", "funcTable"].map(table);
    for name in ["resourceTable", "nativeSymbols", "sources", "sourceLocationTable"] {
        table(name);
    }
    let at = |table: &Json, column: &str, index: usize| table.get(column).list()[index].clone();
    let string = |index: usize| shared.get("stringArray").list()[index].text().to_owned();
    let categories = file.get("meta").get("categories").list();
    assert_eq!(categories[0].get("color").text(), "grey");
    let mut texts: Vec<String> = Vec::new();
    for stack in 0..stacks.get("length").index() {
        let frame = at(stacks, "frame", stack).index();
        assert!(at(frames, "category", frame).index() < categories.len());
        let function = at(frames, "func", frame).index();
        let resource = at(functions, "resource", function).number();
        assert!(resource < shared.get("resourceTable").get("length").number());
        let name = string(at(functions, "name", function).index());
        texts.push(match at(stacks, "prefixOffset", stack).index() {
            0 => name,
            offset => format!("{};{name}", texts[stack - offset]),
        });
    }
    let mut values = Values::new();
    for thread in file.get("threads").list() {
        check_table(thread.get("markers"), "markers", &[]);
        let samples = check_table(thread.get("samples"), "samples", &["weight", "weightType"]);
        let times: Vec<f64> = samples.get("time").list().iter().map(Json::number).collect();
        assert!(times.is_sorted() && times.iter().all(|time| (0.0..=1_000.0).contains(time)), "{times:?}");
        let name = thread.get("name").text();
        let (name, kind) = name.strip_suffix(')').and_then(|it| it.split_once(" (")).unwrap_or((name, "cpu"));
        for (index, stack) in samples.get("stack").list().iter().enumerate() {
            let weight = match samples.get("weight") {
                Json::Null => 1.0,
                weights => weights.list()[index].number(),
            };
            let key = (kind.to_owned(), name.to_owned(), texts[stack.index()].clone());
            *values.entry(key).or_default() += weight;
        }
    }
    values
}

#[test]
fn firefox_files_hold_all_events() {
    let factor = |kind: &SampleKind| if kind.is_off_cpu() { 1e-6 } else { 1.0 };
    on_random_profiles(|profile| assert_eq!(firefox(profile), expected(profile, factor, "[no stack]")));
    let (ours, expected) = (firefox(&kinds()), expected(&kinds(), factor, "[no stack]"));
    assert_eq!(ours.len(), 5);
    for (ours, expected) in ours.iter().zip(&expected) {
        assert!(ours.0 == expected.0 && (ours.1 - expected.1).abs() < 1e-9, "{ours:?} {expected:?}");
    }
}

/// Events are in the order of time, with the time that each tick stands for.
#[test]
fn firefox_threads_are_those_of_the_machine() {
    let file = json::parse(&written(&kinds(), Format::FIREFOX));
    let threads: Vec<String> = file
        .get("threads")
        .list()
        .iter()
        .map(|it| {
            let samples = it.get("samples");
            let numbers = |name| samples.get(name).list().iter().map(Json::number).collect::<Vec<_>>();
            let (pid, tid, is_main) = (it.get("pid").text(), it.get("tid"), it.get("isMainThread"));
            let weights = if *samples.get("weight") == Json::Null { vec![] } else { numbers("weight") };
            let time = numbers("time");
            let weight_type = samples.get("weightType").text();
            format!("{pid} {tid:?} {is_main:?} {weight_type} {time:?} {weights:?}")
        })
        .collect();
    assert_eq!(
        threads,
        [
            r#"7 Number(7.0) Bool(true) samples [10.0, 10.0, 20.0, 20.0] [3.0, 3.0, 1.0, 1.0]"#,
            r#"7.1 Number(7.0) Bool(true) samples [10.0, 10.0, 20.0, 20.0] [3.0, 3.0, 1.0, 1.0]"#,
            r#"8 Number(9.0) Bool(false) samples [0.0] []"#,
            r#"7 Text("7.1") Bool(false) tracing-ms [30.0, 30.0] [2.500001, 2.500001]"#,
            r#"7.1 Text("7.1") Bool(false) tracing-ms [30.0, 30.0] [2.500001, 2.500001]"#,
            r#"7 Text("7.2") Bool(false) bytes [30.0, 30.0] [4096.0, 4096.0]"#,
            r#"7.1 Text("7.2") Bool(false) bytes [30.0, 30.0] [4096.0, 4096.0]"#,
            r#"7 Text("7.3") Bool(false) samples [30.0, 30.0] [5.0, 5.0]"#,
            r#"7.1 Text("7.3") Bool(false) samples [30.0, 30.0] [5.0, 5.0]"#,
        ]
    );
    let samples = file.get("threads").list()[0].get("samples");
    let time: Vec<f64> = samples.get("threadCPUDelta").list().iter().map(Json::number).collect();
    assert_eq!(time, [3e7, 3e7, 1e7, 1e7]);
    let extra = file.get("meta").get("extra").list()[0].get("entries").list();
    assert_eq!((extra[1].get("label").text(), extra[1].get("value").number()), ("Lost: ring full", 3.0));
}

/// Reads a file of speedscope by the rules of its schema.
fn speedscope(profile: &Profile) -> Values {
    let file = json::parse(&written(profile, Format::SPEEDSCOPE));
    assert_eq!(file.get("$schema").text(), "https://www.speedscope.app/file-format-schema.json");
    let frames: Vec<&str> =
        file.get("shared").get("frames").list().iter().map(|frame| frame.get("name").text()).collect();
    let mut values = Values::new();
    for profile in file.get("profiles").list() {
        assert_eq!((profile.get("type").text(), profile.get("startValue").number()), ("sampled", 0.0));
        let units = ["none", "nanoseconds", "bytes"];
        assert!(units.contains(&profile.get("unit").text()), "{profile:?}");
        let (samples, weights) = (profile.get("samples").list(), profile.get("weights").list());
        assert_eq!(samples.len(), weights.len());
        let total: f64 = weights.iter().map(Json::number).sum();
        assert_eq!(profile.get("endValue").number(), total);
        for (sample, weight) in samples.iter().zip(weights) {
            let names: Vec<&str> = sample.list().iter().map(|frame| frames[frame.index()]).collect();
            // Numbered threads are one pool, as in flame graphs.
            let thread = names[0].replace("0:*", "0:1");
            let key = (profile.get("name").text().to_owned(), thread, names[1..].join(";"));
            *values.entry(key).or_default() += weight.number();
        }
    }
    values
}

#[test]
fn speedscope_files_hold_all_samples() {
    let factor = |kind: &SampleKind| if kind.is_cpu() { 1e7 } else { 1.0 };
    on_random_profiles(|profile| assert_eq!(speedscope(profile), expected(profile, factor, "")));
    assert_eq!(speedscope(&kinds()), expected(&kinds(), factor, ""));
    assert!(speedscope(&testing::profile("")).is_empty());
}
