//! Encodes a profile.

use std::sync::Arc;

use hashbrown::HashMap;

use super::number::Writer;
use super::{MAGIC, MAX_FRAMES, MAX_PARTS, VERSION, checksum};
use crate::profile::label::LabelValue;
use crate::profile::samples::NO_CPU;
use crate::profile::{Data, FrameId, NamedFrame, Process, Profile, StackId, Thread, TraceId, Unit};
use crate::symbol::Symbol;
use crate::trace::{Found, Frame};

/// Returns the bytes of a profile, all of whose kinds are selected; `None` if it is too large to be
/// decoded.
pub(super) fn profile(profile: &Profile) -> Option<Vec<u8>> {
    let data = &*profile.data;
    let (mut texts, mut body) = (Texts::default(), Writer::default());
    head(data, &mut body);
    files(data, &mut texts, &mut body);
    processes(data, &mut texts, &mut body);
    frames(data, &mut texts, &mut body);
    stacks(data, &mut body);
    samples(profile, &mut body);
    let mut out = Writer { bytes: MAGIC.to_vec(), parts: body.parts };
    out.number(VERSION);
    out.list(texts.all.len());
    texts.all.iter().for_each(|text| out.text(text));
    out.bytes.append(&mut body.bytes);
    let sum = checksum(&out.bytes);
    out.bytes.extend_from_slice(&sum.to_le_bytes());
    let longest = data.traces.longest_stack();
    let fits = out.bytes.len() <= Profile::MAX_ENCODED && out.parts <= MAX_PARTS && longest <= MAX_FRAMES;
    fits.then_some(out.bytes)
}

fn head(data: &Data, out: &mut Writer) {
    out.time(data.start);
    out.duration(data.duration);
    out.text(&data.boot_id);
    out.list(data.kinds.len());
    for kind in &data.kinds {
        out.text(kind.name());
        out.bytes.push(match kind.unit() {
            Unit::Count => 0,
            Unit::Nanoseconds => 1,
            Unit::Bytes => 2,
        });
        out.duration(kind.period());
    }
    out.list(data.losses.iter().count());
    for (cause, count) in data.losses.iter() {
        out.text(cause);
        out.number(count);
    }
    out.list(data.periods.len());
    for change in &data.periods {
        out.length(change.kind);
        out.time(change.since);
        out.number(change.period);
    }
}

fn files(data: &Data, texts: &mut Texts, out: &mut Writer) {
    out.list(data.modules.len());
    for module in &data.modules {
        out.text(&module.path);
        out.bytes(&module.build_id);
        [module.start, module.end, module.offset].into_iter().for_each(|number| out.number(number));
        out.bytes.push(module.is_foreign.into());
    }
    out.list(data.scripts.len());
    for script in &data.scripts {
        out.text(script.language);
        out.number(texts.id(&script.name));
        out.number(texts.id(&script.file));
        out.number(script.start_line);
        out.bytes.push(script.is_unnamed.into());
    }
}

fn processes(data: &Data, texts: &mut Texts, out: &mut Writer) {
    out.list(data.processes.len());
    for process in &data.processes {
        out.number(process.pid);
        out.number(process.created);
        out.number(process.parent);
        let Process { command_line, executable, container, cgroup, pod, .. } = process;
        [command_line, executable, container, cgroup, pod].iter().for_each(|text| out.text(text));
        out.number(process.user.map_or(0, |user| u64::from(user) + 1));
        out.number(process.namespace_pid);
        for pairs in [&process.environment, &process.attributes] {
            out.list(pairs.len());
            pairs.iter().flat_map(|(name, value)| [name, value]).for_each(|text| out.text(text));
        }
    }
    out.list(data.threads.len());
    data.threads.iter().for_each(|thread| self::thread(thread, texts, out));
}

fn thread(thread: &Thread, texts: &mut Texts, out: &mut Writer) {
    out.number(thread.process.0);
    out.number(thread.tid);
    out.text(&thread.name);
    out.list(thread.labels.iter().len());
    for label in &thread.labels {
        out.number(texts.id(label.key_text()));
        match label.value() {
            LabelValue::Text(text) => {
                out.bytes.push(0);
                out.number(texts.id(text));
            }
            LabelValue::Number(number) => {
                out.bytes.push(1);
                out.signed(*number);
            }
        }
    }
}

fn frames(data: &Data, texts: &mut Texts, out: &mut Writer) {
    let functions = data.names.all_functions();
    out.list(functions.len());
    for Symbol { function, system_name, file, start_line, .. } in functions {
        [function, system_name, file].iter().for_each(|text| out.number(texts.id(text)));
        out.number(*start_line);
    }
    out.list(data.frames.len());
    let mut last = 0;
    data.by_place.iter().for_each(|&id| frame(data, data.named(id), &mut last, out));
}

fn frame(data: &Data, named: &NamedFrame, last: &mut u64, out: &mut Writer) {
    let (kind, found) = match named.frame {
        Frame::Kernel { .. } => (0, None),
        Frame::Native { found, .. } => (1, Some(found)),
        Frame::Script { found, .. } => (2, Some(found)),
        Frame::Anonymous { found, .. } => (3, Some(found)),
    };
    let found = match found {
        None | Some(Found::Exactly) => 0,
        Some(Found::Uncalled) => 1,
        Some(Found::Guessed) => 2,
        Some(Found::Inlined) => 3,
        Some(Found::Derived) => 4,
    };
    let (doubtful, start) = (u8::from(named.is_doubtful), u8::from(named.start.is_some()));
    out.bytes.push(found << 4 | start << 3 | doubtful << 2 | kind);
    let mut address = |address: u64, out: &mut Writer| {
        out.signed(address.wrapping_sub(*last) as i64);
        *last = address;
    };
    match named.frame {
        Frame::Kernel { address: at } | Frame::Anonymous { address: at, .. } => address(at, out),
        Frame::Native { module, address: at, .. } => {
            out.number(module.0);
            address(at, out);
        }
        Frame::Script { function, line, .. } => {
            out.number(function.0);
            out.number(line);
        }
    }
    named.start.iter().for_each(|start| out.number(start.get()));
    let symbols = data.names.symbols(&named.symbols);
    out.list(symbols.len());
    for (symbol, function) in symbols.iter().zip(data.names.functions(&named.symbols)) {
        [function.0, symbol.line, symbol.column].iter().for_each(|&number| out.number(number));
    }
}

fn stacks(data: &Data, out: &mut Writer) {
    let mut positions = vec![0u32; data.frames.len()];
    for (position, &FrameId(id)) in (0..).zip(&data.by_place) {
        positions[id as usize] = position;
    }
    out.list(data.traces.stacks());
    for stack in 0..data.traces.stacks() {
        let frames = data.traces.frames(StackId(stack as u32));
        out.length(frames.len());
        frames.iter().for_each(|frame| out.number(positions[frame.0 as usize]));
    }
    out.list(data.traces.len());
    for trace in 0..data.traces.len() {
        let stored = data.traces.get(TraceId(trace as u32));
        out.number(stored.stack.0);
        out.bytes.push(stored.stop as u8);
        out.number(stored.omitted);
        out.number(stored.gap);
    }
}

fn samples(profile: &Profile, out: &mut Writer) {
    let samples = profile.samples();
    out.list(samples.len());
    let mut last = 0u64;
    for sample in samples {
        let stored = sample.stored;
        out.number(stored.kind);
        out.number(stored.thread.0);
        out.number(stored.trace.0);
        let has_values = sample.values().iter().any(|&value| value != 1);
        out.number(sample.count() << 1 | u64::from(has_values));
        for event in profile.data.samples.events(stored) {
            out.signed(event.time.wrapping_sub(last) as i64);
            last = event.time;
            out.number(if event.cpu == NO_CPU { 0 } else { u64::from(event.cpu) + 1 });
            if has_values {
                out.number(event.value);
            }
        }
    }
}

/// Texts that are written once.
#[derive(Default)]
struct Texts {
    ids: HashMap<Arc<str>, u32>,
    all: Vec<Arc<str>>,
}

impl Texts {
    fn id(&mut self, text: &Arc<str>) -> u32 {
        let next = self.all.len() as u32;
        let id = *self.ids.entry(text.clone()).or_insert(next);
        if id == next {
            self.all.push(text.clone());
        }
        id
    }
}
