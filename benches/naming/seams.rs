//! Instrumented seams between profiler, language and machine: reads are counted, calls timed.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use benches::usage::on_cpu;
use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::internal::process::{Description, System};
use ebpf_profiler_core::internal::sample::MapEvent;
use ebpf_profiler_core::language::{Attachment, FrameWalker, Language, Reason, Runtime, Target};
use ebpf_profiler_core::live::LiveSystem;
use ebpf_profiler_core::process::Opener;

/// The running machine; its reads of memory are logged with address and size.
#[derive(Clone, Default)]
pub(crate) struct Counted(Arc<Mutex<Vec<(u64, usize)>>>, LiveSystem);

impl Counted {
    /// Takes the reads since the previous call.
    pub(crate) fn take(&self) -> Vec<(u64, usize)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl System for Counted {
    fn processes(&self) -> Vec<u32> {
        self.1.processes()
    }

    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>> {
        self.1.mappings(pid)
    }

    fn describe(&self, pid: u32) -> Description {
        self.1.describe(pid)
    }

    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener> {
        self.1.opener(pid, mapping)
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((address, buffer.len()));
        self.1.read(pid, address, buffer)
    }
}

/// Time of the calls to a language.
#[derive(Clone, Default)]
pub(crate) struct Answers {
    /// Time in files without runtime, and their number.
    pub(crate) others: (Duration, u32),
    /// Time in the file with the runtime.
    pub(crate) found: Duration,
    /// Time to attach, per process.
    pub(crate) attached: Vec<Duration>,
    /// The walker of the attached process, which computes checks.
    pub(crate) walker: Option<FrameWalker>,
}

/// A language whose calls are timed.
pub(crate) struct Timed<T: ?Sized>(pub(crate) Arc<Mutex<Answers>>, pub(crate) Box<T>);

impl<T: ?Sized> Timed<T> {
    fn note(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Language for Timed<dyn Language> {
    fn name(&self) -> &'static str {
        self.1.name()
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        let begun = on_cpu();
        let found = self.1.find(elf);
        let took = on_cpu() - begun;
        self.note(|answers| match found {
            Some(_) => answers.found += took,
            None => answers.others = (answers.others.0 + took, answers.others.1 + 1),
        });
        found.map(|runtime| Box::new(Timed(self.0.clone(), runtime)) as Box<dyn Runtime>)
    }
}

impl Runtime for Timed<dyn Runtime> {
    fn loops(&self) -> &[Range<u64>] {
        self.1.loops()
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        let begun = on_cpu();
        let attachment = self.1.attach(target);
        let took = on_cpu() - begun;
        self.note(|answers| {
            answers.attached.push(took);
            if let Ok(attachment) = &attachment {
                answers.walker = Some(*attachment.walker());
            }
        });
        attachment
    }
}
