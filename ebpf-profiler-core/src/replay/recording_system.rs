//! Records the answers of a [`System`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Recorder;
use super::record::{Facts, kind};
use crate::elf::ReadAt;
use crate::language::{Journal, NamedCall, SampleId, ScriptCall};
use crate::process::{Description, Opener, System};
use crate::sample::{FileId, MapEvent};

/// Forwards to another system and records its answers.
#[derive(Debug)]
pub struct RecordingSystem<S> {
    system: S,
    recorder: Recorder,
}

/// Opens a file, and records its facts before the first answer.
struct RecordingOpener {
    opener: Arc<dyn Opener>,
    pid: u32,
    mapping: MapEvent,
    recorder: Recorder,
    written: AtomicBool,
}

/// Maximum size of the vDSO in bytes.
const MAX_IMAGE: u64 = 1 << 20;

impl<S: System> RecordingSystem<S> {
    /// Returns a system that forwards to `system` and writes to `recorder`.
    pub fn new(system: S, recorder: Recorder) -> RecordingSystem<S> {
        RecordingSystem { system, recorder }
    }

    fn described(&self, pid: u32, description: Description) -> Description {
        self.recorder.answer(kind::DESCRIPTION, |body| {
            body.u32(pid);
            body.description(&description);
        });
        description
    }
}

impl<S: System> System for RecordingSystem<S> {
    fn processes(&self) -> Vec<u32> {
        let pids = self.system.processes();
        self.recorder.answer(kind::PROCESSES, |body| body.pids(&pids));
        pids
    }

    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>> {
        let maps = self.system.mappings(pid);
        self.recorder.answer(kind::MAPPINGS, |body| {
            body.u32(pid);
            body.maps(maps.as_deref().ok());
        });
        maps
    }

    fn describe(&self, pid: u32) -> Description {
        self.described(pid, self.system.describe(pid))
    }

    fn complete(&self, pid: u32, description: Description) -> Description {
        self.described(pid, self.system.complete(pid, description))
    }

    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener> {
        Arc::new(RecordingOpener {
            opener: self.system.opener(pid, mapping),
            pid,
            mapping: mapping.clone(),
            recorder: self.recorder.clone(),
            written: AtomicBool::new(false),
        })
    }

    /// Not recorded: the journal has the names.
    fn perf_map(&self, pid: u32) -> io::Result<Box<dyn ReadAt>> {
        self.system.perf_map(pid)
    }

    /// Not recorded: recordings have no labels and no attributes.
    fn contexts(&self, pid: u32) -> Vec<u64> {
        self.system.contexts(pid)
    }

    fn abandoned(&self) -> u64 {
        self.system.abandoned()
    }

    fn forget(&self, pid: u32) {
        self.system.forget(pid);
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let result = self.system.read(pid, address, buffer);
        self.recorder.answer(kind::MEMORY, |body| {
            body.u32(pid);
            body.u64(address);
            body.u32(buffer.len() as u32);
            body.optional(result.is_ok().then_some(&*buffer), |body, bytes| body.bytes(bytes));
        });
        result
    }
}

impl Journal for Recorder {
    fn record(&self, call: &ScriptCall, named: &NamedCall) {
        self.answer(kind::SCRIPT, |body| body.script(call, named));
    }

    fn record_prepared(&self, pid: u32) {
        self.answer(kind::PREPARED, |body| body.u32(pid));
    }

    fn record_outdated(&self, sample: SampleId) {
        self.answer(kind::OUTDATED, |body| {
            body.u64(sample.time);
            body.u32(sample.cpu);
            body.u32(sample.tid);
        });
    }
}

impl Opener for RecordingOpener {
    fn open(&self) -> io::Result<Box<dyn ReadAt>> {
        self.write_once();
        self.opener.open()
    }

    fn release(&self) {
        self.opener.release();
    }

    /// Processes that map a known file of this sort don't open it, so its facts are recorded here as well.
    fn foreign_inode(&self) -> Option<(u64, u64)> {
        let foreign = self.opener.foreign_inode();
        if foreign.is_some() {
            self.write_once();
        }
        foreign
    }
}

impl RecordingOpener {
    fn write_once(&self) {
        if !self.written.swap(true, Ordering::Relaxed) {
            self.write();
        }
    }

    fn write(&self) {
        if self.mapping.file == FileId::VDSO {
            self.recorder.image(|| whole(&*self.opener.open()?));
        }
        let facts = Facts::of(&*self.opener).ok();
        self.recorder.answer(kind::FILE, |body| {
            body.u32(self.pid);
            body.map(&self.mapping);
            body.optional(facts.as_ref(), |body, facts| body.facts(facts));
        });
    }
}

fn whole(source: &dyn ReadAt) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; source.size()?.min(MAX_IMAGE) as usize];
    source.read_at(0, &mut bytes)?;
    Ok(bytes)
}
