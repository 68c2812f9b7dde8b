//! Names of all compiled methods of a process, by the profiler's `Registry`, first unknown and then
//! cached.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use benches::timed::{Timed, Times};
use benches::usage::{on_cpu, peak_memory};
use ebpf_profiler_core::internal::process::System as _;
use ebpf_profiler_core::internal::registry::Registry;
use ebpf_profiler_core::internal::tables::MemoryTables;
use ebpf_profiler_core::language::{Language, Unreadable};
use ebpf_profiler_core::live::LiveSystem;
use ebpf_profiler_core::trace::Frame;
use ebpf_programs::abi::hotspot::shape;
use ebpf_programs::abi::record::frame::{DETAIL, INTERPRETED, SHAPE_SHIFT};

use crate::Outcome;
use crate::blobs::blobs;

/// The names of classes that `Many` compiles begin so.
const PART: &str = "Many$Part";

/// Figures of one round.
pub(crate) struct Named {
    /// CPU time of attaching to the process, once its files are known.
    pub(crate) attaching: Duration,
    /// Number of compiled methods, those of the virtual machine included.
    pub(crate) methods: usize,
    pub(crate) cold: Duration,
    pub(crate) warm: Duration,
    /// Growth of the peak of resident memory, in bytes.
    pub(crate) memory: u64,
}

/// Names all methods; fails unless `least` of them are those of `Many`.
pub(crate) fn name(pid: u32, least: usize) -> Outcome<Named> {
    let mut first = Process::attach(pid)?;
    let words = first.words()?;
    let before = peak_memory()?;
    let mut methods = Vec::new();
    let mut own = 0;
    for word in words {
        let Some(name) = first.name(word) else { continue };
        own += usize::from(name.starts_with(PART) && name.contains(".m"));
        methods.extend(name.contains('.').then_some(word));
    }
    let memory = peak_memory()? - before;
    if own < least {
        return Err(format!("{own} of {least} methods have names").into());
    }
    let words = methods.concat();
    let mut process = Process::attach(pid)?;
    let (cold, warm) = (process.time(&words), process.time(&words));
    Ok(Named { attaching: process.times().attaching, methods: methods.len(), cold, warm, memory })
}

/// A process that a registry is attached to.
struct Process {
    pid: u32,
    registry: Registry,
    times: Arc<Mutex<Times>>,
}

impl Process {
    fn attach(pid: u32) -> Outcome<Process> {
        let times = Arc::new(Mutex::new(Times::default()));
        let mut registry =
            Registry::new(Box::new(LiveSystem::default()), Box::new(MemoryTables::default()), None, 1 << 26);
        let timed = |language| Box::new(Timed::new(times.clone(), language)) as Box<dyn Language>;
        registry.add_languages(ebpf_profiler_hll::all().into_iter().map(timed).collect());
        registry.publish(pid, 1).ok_or("a process without files")?;
        Ok(Process { pid, registry, times })
    }

    /// Returns the words of frames in all code blobs, as the kernel side sends them.
    fn words(&self) -> Outcome<Vec<[u64; 2]>> {
        let walker = self.times().walker.ok_or("a process without a virtual machine")?;
        let system = LiveSystem::default();
        let read =
            |address: u64, buffer: &mut [u8]| system.read(self.pid, address, buffer).map_err(|_| Unreadable);
        let words = |(blob, check)| {
            let shape = u64::from(shape::COMPILED) << SHAPE_SHIFT;
            [INTERPRETED | shape | blob, DETAIL | u64::from(check) << 32]
        };
        Ok(blobs(&walker, &read).into_iter().map(words).collect())
    }

    /// Returns the name of the function of a frame.
    fn name(&mut self, words: [u64; 2]) -> Option<&str> {
        let mut frames = Vec::new();
        self.registry.frames(self.pid, &words, 1, &mut frames);
        match frames.last()? {
            Frame::Script { function, .. } => self.registry.script(*function).map(|script| &*script.name),
            _ => None,
        }
    }

    fn time(&mut self, words: &[u64]) -> Duration {
        let mut frames = Vec::with_capacity(words.len());
        let begun = on_cpu();
        self.registry.frames(self.pid, words, 1, &mut frames);
        let time = on_cpu() - begun;
        std::hint::black_box(frames);
        time
    }

    fn times(&self) -> Times {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
