//! Contents of a profile in a comparable form, from the profile itself and from decoded messages.

use std::collections::BTreeMap;

use ebpf_profiler_core::profile::{FrameView, Profile, Sample, TraceView};
use ebpf_profiler_core::trace::{Frame, Stop};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::profiles::v1development as wire;

/// Thread, stack as lines of text with the leaf first, and timestamps, sorted.
pub(crate) type Content = BTreeMap<(Vec<String>, Vec<String>), Vec<u64>>;

fn sorted(mut content: Content) -> Content {
    content.values_mut().for_each(|times| times.sort_unstable());
    content
}

/// Returns the contents of a profile.
pub(crate) fn of_profile(profile: &Profile) -> Content {
    let mut content = Content::new();
    for sample in profile.samples() {
        let times = content.entry((thread(&sample), stack(sample.trace()))).or_default();
        times.extend(sample.timestamps());
    }
    sorted(content)
}

fn thread(sample: &Sample<'_>) -> Vec<String> {
    let (process, thread) = (sample.process(), sample.thread());
    let name = process.executable.rsplit('/').next().unwrap_or_default();
    let mut who = vec![format!("process.pid={}", process.pid), format!("thread.id={}", thread.tid)];
    for (key, value) in [
        ("process.executable.path", &*process.executable),
        ("process.executable.name", name),
        ("container.id", &process.container),
        ("k8s.pod.uid", &process.pod),
        ("thread.name", &thread.name),
    ] {
        who.extend((!value.is_empty()).then(|| format!("{key}={value}")));
    }
    who.extend(process.attributes.iter().map(|(key, value)| format!("{key}={value}")));
    who.extend(sample.labels().iter().map(|label| format!("{}={}", label.key(), label.value())));
    who.sort();
    who
}

fn stack(trace: TraceView<'_>) -> Vec<String> {
    let mut lines: Vec<String> = trace.frames().map(|frame| describe(&frame)).collect();
    if let Some((_, gap)) = trace.omitted() {
        lines.insert(gap, "abort-marker [frames left out]".into());
    }
    if trace.stop() != Stop::TooDeep && (lines.is_empty() || !trace.is_whole() || trace.stop() == Stop::Exec)
    {
        lines.push(format!("abort-marker [{}]", trace.stop()));
    }
    lines
}

fn describe(frame: &FrameView<'_>) -> String {
    let guessed = if frame.is_guessed() { " guessed" } else { "" };
    let place = match frame.frame() {
        Frame::Kernel { address } => format!("kernel [kernel]+{address:#x}"),
        Frame::Native { address, .. } => {
            let module = frame.module().expect("a native frame has a module");
            let gnu: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("native {}({gnu})+{address:#x}", module.path)
        }
        Frame::Anonymous { address, .. } => format!("native {address:#x}"),
        Frame::Script { .. } => match frame.script().expect("a script").language {
            "" | "luajit" => "native 0x0".into(),
            language => format!("{language} 0x0"),
        },
        other => panic!("{other:?}"),
    };
    let symbols = frame.symbols().iter().map(|it| {
        let place = format!("{}:{}:{}:{}", it.file, it.start_line, it.line, it.column);
        format!(" {}/{}@{place}", it.function, it.system_name)
    });
    format!("{place}{guessed}{}", symbols.collect::<String>())
}

/// Returns the contents of requests together.
pub(crate) fn of_requests(requests: &[ExportProfilesServiceRequest]) -> Content {
    let mut content = Content::new();
    for request in requests {
        let tables = request.dictionary.as_ref().expect("a dictionary");
        for resource in &request.resource_profiles {
            let process = resource.resource.as_ref().expect("a resource");
            let profiles = resource.scope_profiles.iter().flat_map(|scope| &scope.profiles);
            for sample in profiles.flat_map(|profile| &profile.samples) {
                let key = (wire_thread(tables, &process.attributes, sample), wire_stack(tables, sample));
                content.entry(key).or_default().extend(&sample.timestamps_unix_nano);
            }
        }
    }
    sorted(content)
}

fn wire_thread(
    tables: &wire::ProfilesDictionary,
    process: &[KeyValue],
    sample: &wire::Sample,
) -> Vec<String> {
    let process = process.iter().filter(|pair| pair.key != "process.creation.time");
    let mut who: Vec<String> =
        process.map(|pair| format!("{}={}", pair.key, text(pair.value.as_ref()))).collect();
    who.extend(attributes(tables, &sample.attribute_indices).map(|(key, value)| format!("{key}={value}")));
    let link = &tables.link_table[sample.link_index as usize];
    for (key, id) in [("trace_id", &link.trace_id), ("span_id", &link.span_id)] {
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        who.extend((sample.link_index != 0).then(|| format!("{key}={id}")));
    }
    who.sort();
    who
}

fn wire_stack(tables: &wire::ProfilesDictionary, sample: &wire::Sample) -> Vec<String> {
    let stack = &tables.stack_table[sample.stack_index as usize];
    let location = |&index: &i32| wire_location(tables, &tables.location_table[index as usize]);
    stack.location_indices.iter().map(location).collect()
}

fn wire_location(tables: &wire::ProfilesDictionary, location: &wire::Location) -> String {
    let find = |key: &str| {
        attributes(tables, &location.attribute_indices).find(|(known, _)| *known == key).map(|pair| pair.1)
    };
    let lines: String = location.lines.iter().map(|line| wire_line(tables, line)).collect();
    // The types of Go and Rust frames have a test of their own.
    let kind = match find("profile.frame.type").as_deref() {
        Some("abort-marker") => return format!("abort-marker {}", &lines[1..lines.find('/').unwrap()]),
        Some("go" | "rust") => "native".into(),
        kind => kind.expect("a frame type").to_owned(),
    };
    let guessed = if find("ebpf_profiler.frame.guessed").is_some() { " guessed" } else { "" };
    format!("{kind} {}{:#x}{guessed}{lines}", wire_mapping(tables, location), location.address)
}

fn wire_mapping(tables: &wire::ProfilesDictionary, location: &wire::Location) -> String {
    if location.mapping_index == 0 {
        return String::new();
    }
    let mapping = &tables.mapping_table[location.mapping_index as usize];
    let path = &tables.string_table[mapping.filename_strindex as usize];
    let gnu = attributes(tables, &mapping.attribute_indices).find(|(key, _)| key.ends_with(".gnu"));
    match (&**path, gnu) {
        ("[kernel]", _) => "[kernel]+".into(),
        (path, gnu) => format!("{path}({})+", gnu.map(|pair| pair.1).unwrap_or_default()),
    }
}

fn wire_line(tables: &wire::ProfilesDictionary, line: &wire::Line) -> String {
    let function = &tables.function_table[line.function_index as usize];
    let string = |index: i32| &tables.string_table[index as usize];
    let (name, system) = (string(function.name_strindex), string(function.system_name_strindex));
    let file = string(function.filename_strindex);
    format!(" {name}/{system}@{file}:{}:{}:{}", function.start_line, line.line, line.column)
}

/// Returns the attributes with these indices as text.
pub(crate) fn attributes<'a>(
    tables: &'a wire::ProfilesDictionary,
    indices: &'a [i32],
) -> impl Iterator<Item = (&'a str, String)> {
    indices.iter().map(|&index| {
        let attribute = &tables.attribute_table[index as usize];
        let key = &tables.string_table[attribute.key_strindex as usize];
        (key.as_str(), text(attribute.value.as_ref()))
    })
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => panic!("{other:?}"),
    }
}
