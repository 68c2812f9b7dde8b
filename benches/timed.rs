//! Languages whose calls are timed.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::usage::on_cpu;
use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{
    Attached, Attachment, FrameWalker, Function, Language, Memory, Reason, Runtime, Target,
};

/// CPU time of calls to languages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Number of functions that were named.
    pub functions: u32,
    /// Time of naming them.
    pub naming: Duration,
    /// Time of attaching to processes, failed attempts included.
    pub attaching: Duration,
    /// Walker of the last process that was attached to.
    pub walker: Option<FrameWalker>,
}

/// A language, runtime or process of one whose calls are timed.
#[derive(Debug)]
pub struct Timed<T> {
    times: Arc<Mutex<Times>>,
    inner: T,
}

impl<T> Timed<T> {
    /// Adds the times of calls to `times`.
    pub fn new(times: Arc<Mutex<Times>>, inner: T) -> Timed<T> {
        Timed { times, inner }
    }

    fn note(&self, change: impl FnOnce(&mut Times)) {
        change(&mut self.times.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Language for Timed<Box<dyn Language>> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        let runtime = self.inner.find(elf)?;
        Some(Box::new(Timed::new(self.times.clone(), runtime)))
    }

    fn walkers(&self) -> u32 {
        self.inner.walkers()
    }
}

impl Runtime for Timed<Box<dyn Runtime>> {
    fn loops(&self) -> &[Range<u64>] {
        self.inner.loops()
    }

    fn owns_anonymous_memory(&self) -> bool {
        self.inner.owns_anonymous_memory()
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        let begun = on_cpu();
        let attachment = self.inner.attach(target);
        self.note(|times| {
            times.attaching += on_cpu() - begun;
            times.walker = attachment.as_ref().ok().map(|attachment| *attachment.walker()).or(times.walker);
        });
        let (walker, code, names) = attachment?.into_parts();
        Ok(Attachment::new(walker, Timed::new(self.times.clone(), names)).with_code(code))
    }
}

impl Attached for Timed<Box<dyn Attached>> {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let begun = on_cpu();
        let function = self.inner.function(address, check, memory)?;
        self.note(|times| {
            times.functions += 1;
            times.naming += on_cpu() - begun;
        });
        Ok(function)
    }

    fn called_function(
        &mut self,
        address: u64,
        check: u32,
        caller: (u64, u32),
        memory: &dyn Memory,
    ) -> Result<Function, Reason> {
        self.inner.called_function(address, check, caller, memory)
    }

    fn identity_bits(&self) -> u32 {
        self.inner.identity_bits()
    }
}
