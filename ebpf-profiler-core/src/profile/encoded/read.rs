//! Decodes a profile.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::number::Reader;
use super::{DecodeError, MAGIC, MAX_FRAMES, VERSION, checksum};
use crate::language::{Script, language_name};
use crate::process::{Module, ModuleId};
use crate::profile::label::{LabelValue, Labels, SampleLabel};
use crate::profile::names::Namer;
use crate::profile::naming::order;
use crate::profile::samples::{Event, NO_CPU, SampleInterner, Samples};
use crate::profile::traces::{StoredTrace, Traces};
use crate::profile::{
    Data, FrameId, Losses, NamedFrame, Process, ProcessId, Profile, SampleKind, SamplingPeriod, StackId,
    Thread, ThreadId, TraceId, Unit,
};
use crate::symbol::Symbol;
use crate::trace::{Found, Frame, ScriptId, Stop};

/// Decodes a profile from all of its bytes.
pub(super) fn profile(bytes: &[u8]) -> Result<Profile, DecodeError> {
    let mut from = Reader::new(bytes);
    if from.take(MAGIC.len()).map_err(|_| DecodeError::Magic)? != MAGIC {
        return Err(DecodeError::Magic);
    }
    let version = from.number()?;
    if !(1..=VERSION).contains(&version) {
        return Err(DecodeError::Version { found: version });
    }
    let data = data(&mut from, version)?;
    let sum = from.take(8)?;
    if !from.is_empty() {
        return damaged("bytes behind its end");
    }
    if checksum(&bytes[..bytes.len() - 8]).to_le_bytes() != *sum {
        return damaged("the checksum differs");
    }
    Ok(Profile::new(data))
}

fn data(from: &mut Reader<'_>, version: u64) -> Result<Data, DecodeError> {
    let texts: Vec<Arc<str>> = from.list(1, |from| Ok(from.text()?.into()))?;
    let (start, duration) = (from.time()?, from.duration()?);
    let boot_id = from.text()?.into();
    let kinds = from.list(4, kind)?;
    if kinds.len() > u16::MAX.into() {
        return damaged("too many kinds");
    }
    let losses = losses(from)?;
    let periods = from.list(4, |from| {
        let kind = from.id(kinds.len(), "a period of an unknown kind")? as usize;
        Ok(SamplingPeriod { kind, since: from.time()?, period: from.number()? })
    })?;
    let modules = from.list(6, module)?;
    let scripts = from.list(5, |from| script(from, &texts))?;
    let processes = from.list(6, |from| process(from, version))?;
    let threads = from.list(4, |from| thread(from, processes.len(), &texts))?;
    let functions = from.list(4, |from| function(from, &texts))?;
    let mut frames = Frames {
        modules: modules.len(),
        scripts: scripts.len(),
        functions,
        last: 0,
        namer: Namer::default(),
    };
    let named = from.list(3, |from| frames.frame(from))?;
    let traces = traces(from, named.len())?;
    let samples = samples(from, kinds.len(), &threads, traces.len())?;
    let by_code = order(&named.iter().map(|named| named.frame).collect::<Vec<_>>());
    Ok(Data {
        start,
        duration,
        boot_id,
        kinds,
        losses: losses.into(),
        modules,
        scripts,
        processes,
        threads,
        names: frames.namer.finish(),
        frames: named,
        by_place: by_code.into_iter().map(|(.., frame)| FrameId(frame)).collect(),
        traces,
        samples,
        periods,
    })
}

fn kind(from: &mut Reader<'_>) -> Result<SampleKind, DecodeError> {
    let name = from.text()?.to_owned();
    let unit = match from.byte()? {
        0 => Unit::Count,
        1 => Unit::Nanoseconds,
        2 => Unit::Bytes,
        _ => return damaged("an unknown unit"),
    };
    Ok(SampleKind::new(name, unit).with_period(from.duration()?))
}

fn losses(from: &mut Reader<'_>) -> Result<Losses, DecodeError> {
    let mut losses = Losses::default();
    for (cause, count) in from.list(2, |from| Ok((from.text()?, from.number()?)))? {
        losses.add(cause.to_owned(), count);
    }
    Ok(losses)
}

fn module(from: &mut Reader<'_>) -> Result<Module, DecodeError> {
    let mut module = Module::new(from.text()?);
    module.build_id = from.bytes()?.into();
    (module.start, module.end, module.offset) = (from.number()?, from.number()?, from.number()?);
    let size = module.end.checked_sub(module.start);
    if size.and_then(|size| size.checked_add(module.offset)).is_none() {
        return damaged("a module with a range that is not in order");
    }
    module.is_foreign = from.flag()?;
    Ok(module)
}

fn script(from: &mut Reader<'_>, texts: &[Arc<str>]) -> Result<Script, DecodeError> {
    let language = language_name(from.text()?);
    let (name, file) = (text(from, texts)?, text(from, texts)?);
    Ok(Script { language, name, file, start_line: from.word()?, is_unnamed: from.flag()? })
}

fn process(from: &mut Reader<'_>, version: u64) -> Result<Process, DecodeError> {
    let mut process = Process {
        pid: from.word()?,
        created: from.number()?,
        parent: from.word()?,
        command_line: from.text()?.into(),
        executable: from.text()?.into(),
        container: from.text()?.into(),
        ..Process::default()
    };
    if version > 1 {
        process.cgroup = from.text()?.into();
        process.pod = from.text()?.into();
        process.user = user(from.number()?)?;
        process.namespace_pid = from.word()?;
        let pair = |from: &mut Reader<'_>| Ok((from.text()?.into(), from.text()?.into()));
        process.environment = from.list(2, pair)?;
        process.attributes = from.list(2, pair)?;
    }
    Ok(process)
}

/// Decodes the id of a user, plus 1, or 0.
fn user(number: u64) -> Result<Option<u32>, DecodeError> {
    let Some(id) = number.checked_sub(1) else { return Ok(None) };
    u32::try_from(id).map(Some).map_err(|_| DecodeError::Damaged { what: "the id of a user" })
}

fn thread(from: &mut Reader<'_>, processes: usize, texts: &[Arc<str>]) -> Result<Thread, DecodeError> {
    let process = ProcessId(from.id(processes, "a thread of an unknown process")?);
    let thread = Thread::new(process, from.word()?, from.text()?);
    let labels = from.list(3, |from| label(from, texts))?;
    if labels.len() > Labels::MAX {
        return damaged("too many labels");
    }
    let labels = labels.into_iter().fold(Labels::default(), |labels, label| labels.with(label));
    Ok(Thread { labels, ..thread })
}

fn label(from: &mut Reader<'_>, texts: &[Arc<str>]) -> Result<SampleLabel, DecodeError> {
    let key = text(from, texts)?;
    let value = match from.flag()? {
        false => LabelValue::Text(text(from, texts)?),
        true => LabelValue::Number(from.signed()?),
    };
    // A cut copies the text.
    SampleLabel::uncut(key, value).ok_or(DecodeError::Damaged { what: "a label that is too long" })
}

fn function(from: &mut Reader<'_>, texts: &[Arc<str>]) -> Result<Symbol, DecodeError> {
    let (function, system_name, file) = (text(from, texts)?, text(from, texts)?, text(from, texts)?);
    Ok(Symbol { function, system_name, file, start_line: from.word()?, ..Symbol::default() })
}

fn text(from: &mut Reader<'_>, texts: &[Arc<str>]) -> Result<Arc<str>, DecodeError> {
    Ok(texts[from.id(texts.len(), "an unknown text")? as usize].clone())
}

/// Decodes frames.
struct Frames {
    modules: usize,
    scripts: usize,
    functions: Vec<Symbol>,
    last: u64,
    namer: Namer,
}

impl Frames {
    fn frame(&mut self, from: &mut Reader<'_>) -> Result<NamedFrame, DecodeError> {
        let head = from.byte()?;
        let found = match head >> 4 {
            0 => Found::Exactly,
            1 => Found::Uncalled,
            2 => Found::Guessed,
            3 => Found::Inlined,
            4 => Found::Derived,
            _ => return damaged("an unknown frame"),
        };
        let frame = match head & 3 {
            0 => Frame::Kernel { address: self.address(from)? },
            1 => {
                let module = ModuleId(from.id(self.modules, "a frame of an unknown module")?);
                Frame::Native { module, address: self.address(from)?, found }
            }
            2 => {
                let function = ScriptId(from.id(self.scripts, "a frame of an unknown script")?);
                Frame::Script { function, line: from.word()?, found }
            }
            _ => Frame::Anonymous { address: self.address(from)?, found },
        };
        let start = if head & 8 != 0 { NonZeroU64::new(from.number()?) } else { None };
        let Frames { functions, namer, .. } = self;
        let symbols = from.list(3, |from| {
            let function = from.id(functions.len(), "a frame of an unknown function")?;
            let (line, column) = (from.word()?, from.word()?);
            Ok(Symbol { line, column, ..functions[function as usize].clone() })
        })?;
        Ok(NamedFrame { frame, symbols: namer.add(&symbols), start, is_doubtful: head & 4 != 0 })
    }

    fn address(&mut self, from: &mut Reader<'_>) -> Result<u64, DecodeError> {
        self.last = self.last.wrapping_add(from.signed()? as u64);
        Ok(self.last)
    }
}

fn traces(from: &mut Reader<'_>, frames: usize) -> Result<Traces, DecodeError> {
    let mut traces = Traces::default();
    from.list(1, |from| {
        let length = from.length(1)?;
        if length > MAX_FRAMES {
            return Err(DecodeError::TooLarge);
        }
        for _ in 0..length {
            traces.push_frame(FrameId(from.id(frames, "a stack of an unknown frame")?));
        }
        traces.end_stack();
        Ok(())
    })?;
    from.list(4, |from| {
        let stack = StackId(from.id(traces.stacks(), "a trace of an unknown stack")?);
        let stop =
            Stop::from_number(from.byte()?).ok_or(DecodeError::Damaged { what: "an unknown stop reason" })?;
        let (omitted, gap) = (from.word()?, from.word()?);
        if gap as usize > traces.frames(stack).len() {
            return damaged("a gap behind the end of its stack");
        }
        traces.push(StoredTrace { stack, stop, omitted, gap });
        Ok(())
    })?;
    Ok(traces)
}

fn samples(
    from: &mut Reader<'_>,
    kinds: usize,
    threads: &[Thread],
    traces: usize,
) -> Result<Samples, DecodeError> {
    let mut samples = SampleInterner::default();
    let mut last = 0u64;
    from.list(4, |from| {
        let kind = from.id(kinds, "a sample of an unknown kind")? as u16;
        let thread = ThreadId(from.id(threads.len(), "a sample of an unknown thread")?);
        let trace = TraceId(from.id(traces, "a sample of an unknown trace")?);
        let (count, has_values) = events(from)?;
        for _ in 0..count {
            last = last.wrapping_add(from.signed()? as u64);
            let cpu = match from.number()? {
                0 => NO_CPU,
                cpu if cpu <= u64::from(NO_CPU) => (cpu - 1) as u32,
                _ => return damaged("a CPU that is out of range"),
            };
            let value = if has_values { from.number()? } else { 1 };
            samples.add(kind, thread, trace, Event { time: last, cpu, value });
        }
        Ok(())
    })?;
    Ok(samples.finish(threads))
}

/// Decodes the number of events, and whether they have values.
fn events(from: &mut Reader<'_>) -> Result<(u64, bool), DecodeError> {
    let count = from.number()?;
    match count >> 1 {
        0 => damaged("a sample without an event"),
        events => Ok((events, count & 1 != 0)),
    }
}

fn damaged<T>(what: &'static str) -> Result<T, DecodeError> {
    Err(DecodeError::Damaged { what })
}
