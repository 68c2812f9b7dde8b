//! Decodes records.
//!
//! Any bytes decode to a value or to [`SourceError::Format`]. Each count is checked against the
//! bytes that are present, so a decoded record takes at most a small multiple of its size.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::encode;
use super::record::{
    Answer, Code, End, Entry, Facts, Flush, MAX_SEGMENTS, Question, Settings, Start, Step, file_id, kind,
    life,
};
use super::tick;
use crate::elf::{Arch, Segment, segment_type};
use crate::language::{Function, Inlines, Lines, NamedCall, Reason, SampleId, ScriptCall, language_name};
use crate::process::{Description, Pids};
use crate::profile::{SampleKind, Unit};
use crate::sample::{Counts, FileId, Life, LifeEvent, MapEvent, SourceError};
use crate::symbol::Symbol;

pub(super) type Result<T> = std::result::Result<T, SourceError>;

/// Maximum count: sums of a few of them do not overflow.
const MAX_COUNT: u64 = 1 << 48;

/// Decodes a record of the event stream; `None` for other kinds.
pub(super) fn step(kind: u32, body: &[u8]) -> Result<Option<Step>> {
    let mut fields = Fields(body);
    let step = match kind {
        kind::TICK => {
            let (time, words) = tick::decode(&mut fields)?;
            Step::Tick(time, words)
        }
        kind::LIFE => Step::Life(fields.life()?),
        kind::BATCH => Step::Batch,
        kind::FLUSH => Step::Flush(fields.flush()?),
        kind::SETTINGS => {
            Step::Settings(Settings { period: fields.u64()?, pids: Pids::from_list(fields.pids()?) })
        }
        kind::END => Step::End(End { time: fields.u64()?, is_early: fields.u32()? != 0 }),
        _ => return Ok(None),
    };
    fields.end().map(|()| Some(step))
}

/// Decodes a record beside the event stream; `None` for other and for unknown kinds.
pub(super) fn entry(kind: u32, body: &[u8]) -> Result<Option<Entry>> {
    let mut fields = Fields(body);
    let entry = match kind {
        kind::PROCESSES | kind::MAPPINGS | kind::DESCRIPTION | kind::FILE | kind::MEMORY => {
            let (question, answer) = fields.answer(kind)?;
            Entry::Answer(question, answer)
        }
        kind::IMAGE => Entry::Image(fields.bytes()?.to_vec()),
        kind::SCRIPT => fields.script()?,
        kind::PREPARED => Entry::Prepared(fields.u32()?),
        kind::OUTDATED => {
            Entry::Outdated(SampleId { time: fields.u64()?, cpu: fields.u32()?, tid: fields.u32()? })
        }
        kind::KERNEL => Entry::Kernel(fields.u64()?, fields.symbols()?),
        _ => return Ok(None),
    };
    fields.end().map(|()| Some(entry))
}

/// Decodes the start record.
pub(super) fn start(kind: u32, body: &[u8]) -> Result<Start> {
    if kind != kind::START {
        return Err(SourceError::Format("its first record is no start record"));
    }
    let mut fields = Fields(body);
    if fields.u32()? != encode::arch(Arch::HOST) {
        return Err(SourceError::Format("it was recorded on another architecture"));
    }
    fields.u32()?;
    let (clock, period, time, memory) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
    let pids = Pids::from_list(fields.pids()?);
    let tick = Duration::from_nanos(period);
    // Version 2 had CPU time only.
    let is_old = fields.0.is_empty();
    let kinds = if is_old { vec![SampleKind::cpu(tick)] } else { fields.kinds(tick)? };
    Ok(Start { clock, period, time, memory, pids, kinds })
}

/// The fields of a record that are not yet decoded.
pub(super) struct Fields<'r>(pub(super) &'r [u8]);

impl<'r> Fields<'r> {
    fn end(&self) -> Result<()> {
        match self.0 {
            [] => Ok(()),
            _ => Err(SourceError::Format("a record is longer than its fields")),
        }
    }

    fn life(&mut self) -> Result<LifeEvent> {
        let (time, pid, what) = (self.u64()?, self.u32()?, self.u32()?);
        let life = match what {
            life::FORKED => Life::Forked { parent: self.u32()? },
            life::EXECUTED => Life::Executed,
            life::MAPPED => Life::Mapped(self.map()?),
            life::EXITED => Life::Exited,
            life::LOST => Life::Lost { count: self.u32()?.into() },
            _ => return Err(SourceError::Format("a life event is of an unknown kind")),
        };
        Ok(LifeEvent { time, pid, life })
    }

    fn flush(&mut self) -> Result<Flush> {
        let time = self.u64()?;
        let counters = self.list(8, Fields::u64)?;
        let (runs, run_time) = (self.u64()?, Duration::from_nanos(self.u64()?));
        if counters.iter().any(|&count| count > MAX_COUNT) {
            return Err(SourceError::Format("a count exceeds the maximum"));
        }
        Ok(Flush { time, counts: Counts { counters, runs, run_time } })
    }

    fn answer(&mut self, kind: u32) -> Result<(Question, Answer)> {
        if kind == kind::PROCESSES {
            return Ok((Question::Processes, Answer::Processes(self.pids()?)));
        }
        let pid = self.u32()?;
        Ok(match kind {
            kind::MAPPINGS => (Question::Mappings(pid), Answer::Mappings(self.optional(Fields::maps)?)),
            kind::DESCRIPTION => (Question::Description(pid), Answer::Description(self.description()?)),
            kind::FILE => (Question::File(pid, self.map()?), Answer::File(self.optional(Fields::facts)?)),
            _ => self.memory(pid)?,
        })
    }

    fn memory(&mut self, pid: u32) -> Result<(Question, Answer)> {
        let (address, size) = (self.u64()?, self.u32()?);
        let bytes = self.optional(|fields| fields.bytes().map(<[u8]>::to_vec))?;
        if bytes.as_ref().is_some_and(|bytes| bytes.len() != size as usize) {
            return Err(SourceError::Format("memory is not as long as requested"));
        }
        Ok((Question::Memory(pid, address, size), Answer::Memory(bytes)))
    }

    /// Decodes kinds of samples.
    fn kinds(&mut self, tick: Duration) -> Result<Vec<SampleKind>> {
        self.list(8, |fields| {
            let name = fields.text()?.to_owned();
            let unit = match fields.u32()? {
                0 => Unit::Count,
                1 => Unit::Nanoseconds,
                2 => Unit::Bytes,
                _ => return Err(SourceError::Format("a kind of samples is of an unknown unit")),
            };
            let kind = SampleKind::new(name, unit);
            Ok(if kind.is_cpu() { kind.with_period(tick) } else { kind })
        })
    }

    fn pids(&mut self) -> Result<Vec<u32>> {
        self.list(4, Fields::u32)
    }

    /// Decodes mappings, sorted and disjoint: the pipeline searches them.
    fn maps(&mut self) -> Result<Vec<MapEvent>> {
        let maps = self.list(32, Fields::map)?;
        match maps.windows(2).all(|pair| pair[0].end <= pair[1].start) {
            true => Ok(maps),
            false => Err(SourceError::Format("mappings overlap or are not sorted")),
        }
    }

    fn map(&mut self) -> Result<MapEvent> {
        let (start, end, offset) = (self.u64()?, self.u64()?, self.u64()?);
        if start >= end {
            return Err(SourceError::Format("a mapping ends before it begins"));
        }
        Ok(MapEvent { start, end, offset, file: self.file_id()?, path: self.text()?.into() })
    }

    fn file_id(&mut self) -> Result<FileId> {
        match self.u32()? {
            file_id::ANONYMOUS => Ok(FileId::Anonymous),
            file_id::INODE => Ok(FileId::Inode { device: (self.u32()?, self.u32()?), inode: self.u64()? }),
            file_id::INODE_GENERATION => {
                let (device, inode) = ((self.u32()?, self.u32()?), self.u64()?);
                Ok(FileId::Inode { device, inode }.with_generation(self.u64()?))
            }
            file_id::BUILD_ID => Ok(FileId::BuildId(self.bytes()?.into())),
            _ => Err(SourceError::Format("a file id is of an unknown kind")),
        }
    }

    fn description(&mut self) -> Result<Description> {
        let mut description = Description {
            executable: self.text()?.into(),
            container: self.text()?.into(),
            created: self.u64()?,
            ..Description::default()
        };
        if !self.0.is_empty() {
            description.parent = self.u32()?;
            description.command_line = self.text()?.into();
        }
        if !self.0.is_empty() {
            description.cgroup = self.text()?.into();
            description.pod = self.text()?.into();
            description.user = self.optional(Fields::u32)?;
            description.namespace_pid = self.u32()?;
            description.environment =
                self.list(8, |fields| Ok((fields.text()?.into(), fields.text()?.into())))?;
        }
        Ok(description)
    }

    fn facts(&mut self) -> Result<Facts> {
        let (size, code) = (self.u64()?, self.optional(Fields::code)?);
        // Version 3 ends here.
        let foreign = match self.0.is_empty() {
            true => None,
            false => self.optional(|fields| Ok((fields.u64()?, fields.u64()?)))?,
        };
        Ok(Facts { size, code, foreign })
    }

    fn code(&mut self) -> Result<Code> {
        let arch = match self.u32()? {
            1 => Arch::X86_64,
            2 => Arch::Aarch64,
            _ => return Err(SourceError::Format("a file is of an unknown architecture")),
        };
        let build_id = self.bytes()?.to_vec();
        let fingerprint = self.u64()?;
        let segments = self.list(36, Fields::segment)?;
        let inside = |s: &Segment| s.offset.checked_add(s.file_size).is_some();
        match segments.len() <= MAX_SEGMENTS && segments.iter().all(inside) {
            true => Ok(Code { arch, build_id, fingerprint, segments }),
            false => Err(SourceError::Format("a file has invalid segments")),
        }
    }

    fn segment(&mut self) -> Result<Segment> {
        Ok(Segment {
            kind: segment_type::PT_LOAD,
            flags: self.u32()?,
            offset: self.u64()?,
            address: self.u64()?,
            file_size: self.u64()?,
            memory_size: self.u64()?,
        })
    }

    fn symbols(&mut self) -> Result<Vec<Symbol>> {
        self.list(12, |fields| {
            Ok(Symbol {
                function: fields.text()?.into(),
                system_name: fields.text()?.into(),
                file: fields.text()?.into(),
                ..Symbol::default()
            })
        })
    }

    fn script(&mut self) -> Result<Entry> {
        let (pid, numbers) = (self.u32()?, self.u32()?);
        let call = ScriptCall::new(pid, numbers, self.u64()?, self.u32()?);
        let language = language_name(self.text()?);
        let function = match self.u32()? {
            0 => Ok(Arc::new(self.function()?)),
            number => {
                let reason = Reason::ALL.get(number as usize - 1);
                Err(*reason
                    .ok_or(SourceError::Format("the reason for a missing function name is unknown"))?)
            }
        };
        Ok(Entry::Script(call, NamedCall { language, function }))
    }

    fn function(&mut self) -> Result<Function> {
        let (name, file) = (self.text()?.into(), self.text()?.into());
        let start_line = self.u32()?;
        let mut lines = Lines::default();
        for (position, line) in self.list(8, |fields| Ok((fields.u32()?, fields.u32()?)))? {
            lines.push(position, line);
        }
        let inlines = if self.0.is_empty() { Inlines::default() } else { self.inlines()? };
        Ok(Function { name, file, start_line, lines, inlines })
    }

    fn inlines(&mut self) -> Result<Inlines> {
        let mut inlines = Inlines::default();
        let functions = self.list(12, |fields| {
            let function = Function::new(fields.text()?).with_file(fields.text()?);
            Ok(function.with_start_line(fields.u32()?))
        })?;
        for function in functions {
            inlines.add(function);
        }
        let steps = self.list(8, |fields| {
            Ok((fields.u32()?, fields.list(8, |fields| Ok((fields.u32()?, fields.u32()?)))?))
        })?;
        for (position, calls) in steps {
            inlines.push(position, &calls);
        }
        Ok(inlines)
    }

    /// Decodes a list of items that take at least `least` bytes each.
    fn list<T>(&mut self, least: usize, each: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.0.len() / least {
            return Err(SourceError::Format("a list is longer than its record"));
        }
        (0..count).map(|_| each(self)).collect()
    }

    fn optional<T>(&mut self, each: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        match self.u32()? {
            0 => Ok(None),
            1 => each(self).map(Some),
            _ => Err(SourceError::Format("an optional field is neither 0 nor 1")),
        }
    }

    fn text(&mut self) -> Result<&'r str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| SourceError::Format("a text is not UTF-8"))
    }

    /// Reads a list of words.
    pub(super) fn words(&mut self) -> Result<Vec<u64>> {
        self.list(8, Fields::u64)
    }

    pub(super) fn bytes(&mut self) -> Result<&'r [u8]> {
        let size = self.u32()? as usize;
        self.take(size)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        let (word, rest) = self.0.split_first_chunk().ok_or(SHORT_RECORD)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*word))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        let (word, rest) = self.0.split_first_chunk().ok_or(SHORT_RECORD)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*word))
    }

    fn take(&mut self, size: usize) -> Result<&'r [u8]> {
        let (bytes, rest) = self.0.split_at_checked(size).ok_or(SHORT_RECORD)?;
        self.0 = rest;
        Ok(bytes)
    }
}

/// Converts nanoseconds since 1970.
pub(super) fn from_1970(nanoseconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}

const SHORT_RECORD: SourceError = SourceError::Format("a record is shorter than its fields");
