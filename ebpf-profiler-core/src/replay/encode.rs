//! Encodes records.

use std::time::{Duration, SystemTime};

use super::record::{Facts, Start, file_id, kind, life};
use super::tick;
use crate::elf::{Arch, Segment};
use crate::language::{Function, NamedCall, Reason, ScriptCall};
use crate::process::Description;
use crate::profile::Unit;
use crate::sample::{Counts, FileId, Life, LifeEvent, MapEvent};
use crate::symbol::Symbol;

/// Appends records to a buffer.
pub(super) struct Encoder<'b>(pub(super) &'b mut Vec<u8>);

impl Encoder<'_> {
    /// Appends a record.
    pub(super) fn record(&mut self, kind: u32, body: impl FnOnce(&mut Self)) {
        self.u32(kind);
        let at = self.0.len();
        self.u32(0);
        body(self);
        let size = self.0.len() - at - 4;
        // The recorder rejects records beyond 16 MiB.
        let size_word = u32::try_from(size).unwrap_or(u32::MAX);
        self.0[at..at + 4].copy_from_slice(&size_word.to_le_bytes());
    }

    pub(super) fn start(&mut self, start: &Start) {
        self.u32(arch(Arch::HOST));
        self.u32(0);
        self.u64(start.clock);
        self.u64(start.period);
        self.u64(start.time);
        self.u64(start.memory);
        self.pids(&start.pids.to_list());
        self.list(&start.kinds, |e, kind| {
            e.text(kind.name());
            e.u32(unit_number(kind.unit()));
        });
    }

    pub(super) fn tick(&mut self, words: &[u64]) {
        self.0.reserve(words.len() * 8 + 8);
        self.record(kind::TICK, |e| tick::encode(e, words));
    }

    pub(super) fn life(&mut self, event: &LifeEvent) {
        self.u64(event.time);
        self.u32(event.pid);
        match &event.life {
            Life::Forked { parent } => {
                self.u32(life::FORKED);
                self.u32(*parent);
            }
            Life::Executed => self.u32(life::EXECUTED),
            Life::Mapped(map) => {
                self.u32(life::MAPPED);
                self.map(map);
            }
            Life::Exited => self.u32(life::EXITED),
            Life::Lost { count } => {
                self.u32(life::LOST);
                self.u32(u32::try_from(*count).unwrap_or(u32::MAX));
            }
        }
    }

    pub(super) fn counts(&mut self, counts: &Counts) {
        self.list(&counts.counters, |e, &counter| e.u64(counter));
        self.u64(counts.runs);
        self.u64(nanoseconds(counts.run_time));
    }

    pub(super) fn pids(&mut self, pids: &[u32]) {
        self.list(pids, |e, &pid| e.u32(pid));
    }

    pub(super) fn maps(&mut self, maps: Option<&[MapEvent]>) {
        self.optional(maps, |e, maps| e.list(maps, Encoder::map));
    }

    pub(super) fn map(&mut self, map: &MapEvent) {
        self.u64(map.start);
        self.u64(map.end);
        self.u64(map.offset);
        self.file_id(&map.file);
        self.text(&map.path);
    }

    pub(super) fn description(&mut self, description: &Description) {
        self.text(&description.executable);
        self.text(&description.container);
        self.u64(description.created);
        self.u32(description.parent);
        self.text(&description.command_line);
        self.text(&description.cgroup);
        self.text(&description.pod);
        self.optional(description.user, |e, user| e.u32(user));
        self.u32(description.namespace_pid);
        self.list(&description.environment, |e, (name, value)| {
            e.text(name);
            e.text(value);
        });
    }

    pub(super) fn facts(&mut self, facts: &Facts) {
        self.u64(facts.size);
        self.optional(facts.code.as_ref(), |e, code| {
            e.u32(arch(code.arch));
            e.bytes(&code.build_id);
            e.u64(code.fingerprint);
            e.list(&code.segments, Encoder::segment);
        });
        self.optional(facts.foreign, |e, (device, inode)| {
            e.u64(device);
            e.u64(inode);
        });
    }

    pub(super) fn symbols(&mut self, symbols: &[Symbol]) {
        self.list(symbols, |e, symbol| {
            e.text(&symbol.function);
            e.text(&symbol.system_name);
            e.text(&symbol.file);
        });
    }

    pub(super) fn script(&mut self, call: &ScriptCall, named: &NamedCall) {
        self.u32(call.pid);
        self.u32(call.numbers());
        self.u64(call.address);
        self.u32(call.check);
        self.text(named.language);
        match &named.function {
            Ok(function) => {
                self.u32(0);
                self.function(function);
            }
            Err(reason) => self.u32(reason_number(*reason)),
        }
    }

    fn function(&mut self, function: &Function) {
        self.text(&function.name);
        self.text(&function.file);
        self.u32(function.start_line);
        self.u32(function.lines.len() as u32);
        for (position, line) in function.lines.steps() {
            self.u32(position);
            self.u32(line);
        }
        let inlines = &function.inlines;
        if inlines.is_empty() {
            return;
        }
        self.list(inlines.functions(), |e, function| {
            e.text(&function.name);
            e.text(&function.file);
            e.u32(function.start_line);
        });
        self.u32(inlines.steps().len() as u32);
        for (position, calls) in inlines.steps() {
            self.u32(position);
            self.list(calls, |e, &(function, line)| {
                e.u32(function);
                e.u32(line);
            });
        }
    }

    pub(super) fn optional<T>(&mut self, value: Option<T>, each: impl FnOnce(&mut Self, T)) {
        self.u32(value.is_some().into());
        if let Some(value) = value {
            each(self, value);
        }
    }

    pub(super) fn words(&mut self, words: &[u64]) {
        self.list(words, |e, &word| e.u64(word));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn segment(&mut self, segment: &Segment) {
        self.u32(segment.flags);
        self.u64(segment.offset);
        self.u64(segment.address);
        self.u64(segment.file_size);
        self.u64(segment.memory_size);
    }

    fn file_id(&mut self, file: &FileId) {
        match file {
            FileId::Anonymous => self.u32(file_id::ANONYMOUS),
            FileId::Inode { device, inode } => {
                self.u32(file_id::INODE);
                self.u32(device.0);
                self.u32(device.1);
                self.u64(*inode);
            }
            FileId::InodeGeneration { device, inode, generation } => {
                self.u32(file_id::INODE_GENERATION);
                self.u32(device.0);
                self.u32(device.1);
                self.u64(*inode);
                self.u64(*generation);
            }
            FileId::BuildId(id) => {
                self.u32(file_id::BUILD_ID);
                self.bytes(id);
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn list<T>(&mut self, items: &[T], each: impl Fn(&mut Self, &T)) {
        self.u32(items.len() as u32);
        items.iter().for_each(|item| each(self, item));
    }
}

/// Returns the number of a unit in the format.
fn unit_number(unit: Unit) -> u32 {
    match unit {
        Unit::Count => 0,
        Unit::Nanoseconds => 1,
        Unit::Bytes => 2,
    }
}

/// Returns the number of an instruction set.
pub(super) fn arch(arch: Arch) -> u32 {
    match arch {
        Arch::X86_64 => 1,
        Arch::Aarch64 => 2,
    }
}

/// Returns the number of a reason, from 1 on.
pub(super) fn reason_number(reason: Reason) -> u32 {
    Reason::ALL.iter().position(|&other| other == reason).map_or(0, |index| index as u32 + 1)
}

/// Returns nanoseconds, at most `u64::MAX` (584 years).
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns nanoseconds since 1970.
pub(super) fn since_1970(time: SystemTime) -> u64 {
    nanoseconds(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}
