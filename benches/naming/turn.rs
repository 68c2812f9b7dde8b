//! One round: script frames of the kernel side, named by a registry and timed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use benches::usage::on_cpu;
use ebpf_profiler_core::internal::process::System;
use ebpf_profiler_core::internal::registry::Registry;
use ebpf_profiler_core::internal::tables::MemoryTables;
use ebpf_profiler_core::language::{FrameWalker, Language};
use ebpf_profiler_core::live::LiveSystem;
use ebpf_profiler_core::trace::Frame;
use ebpf_programs::abi::record::frame::{CHECK, DETAIL, INTERPRETED};

use crate::Outcome;
use crate::reads;
use crate::seams::{Answers, Counted, Timed};
use crate::workload::{Said, Workload};

/// Input, the same in each round.
pub(crate) struct Questions {
    /// Frames as the kernel side sends them, at the first and at the last position of each
    /// function.
    words: [Vec<u64>; 2],
    /// Frames of the deep stack.
    calls: Vec<u64>,
    /// Reads that name the functions.
    pub(crate) reads: Vec<(u64, usize)>,
    /// Number of reads to attach.
    pub(crate) attaching: usize,
    /// Number of frames that differ from the process's answer.
    pub(crate) wrong: usize,
}

/// CPU times of one round.
pub(crate) struct Turn {
    pub(crate) answers: Answers,
    /// Work for the first process of a file.
    pub(crate) first: Duration,
    /// Work for the second process.
    pub(crate) second: Duration,
    pub(crate) cold: Duration,
    pub(crate) warm: Duration,
    pub(crate) other: Duration,
    pub(crate) bare: Duration,
    /// First naming of the deep stack.
    pub(crate) deep: Duration,
}

impl Questions {
    pub(crate) fn of(process: &Workload) -> Outcome<Questions> {
        let system = Counted::default();
        let (mut registry, answers) = registry(Box::new(system.clone()));
        registry.publish(process.pid(), 1).ok_or("a process without files")?;
        let attaching = system.take().len();
        let walker = answers.lock().unwrap_or_else(PoisonError::into_inner).walker;
        let walker = walker.ok_or("a process without a runtime")?;
        let words = |functions: &[Said], place: usize| -> Outcome<Vec<u64>> {
            let words = functions.iter().map(|said| call(process.pid(), said, place, &walker));
            Ok(words.collect::<Outcome<Vec<_>>>()?.concat())
        };
        let (here, there) = (words(&process.library, 0)?, words(&process.library, 1)?);
        let mut wrong = 0;
        for (place, words) in [&here, &there].into_iter().enumerate() {
            for (said, call) in process.library.iter().zip(words.chunks_exact(2)) {
                let mut frames = Vec::new();
                registry.frames(process.pid(), call, 1, &mut frames);
                wrong += usize::from(!is_as_said(&registry, &frames, said, place));
            }
        }
        let reads = system.take();
        Ok(Questions { words: [here, there], calls: words(&process.calls, 0)?, reads, attaching, wrong })
    }

    /// Runs one round.
    pub(crate) fn ask(&self, deep: &Workload, flat: &Workload) -> Outcome<Turn> {
        let (mut registry, answers) = registry(Box::new(LiveSystem::default()));
        let first = time(|| registry.publish(deep.pid(), 1));
        let second = time(|| registry.publish(flat.pid(), 1));
        let mut frames = Vec::with_capacity(deep.library.len());
        let mut name = |words: &[u64]| {
            frames.clear();
            time(|| registry.frames(deep.pid(), words, 1, &mut frames))
        };
        let [here, there] = &self.words;
        let (cold, other, warm) = (name(here), name(there), name(there));
        Ok(Turn {
            first,
            second,
            cold,
            warm,
            other,
            bare: reads::bare(deep.pid(), &self.reads),
            deep: name(&self.calls),
            answers: answers.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.reads.iter().map(|read| read.1).sum()
    }
}

/// A registry like the profiler's, with timed languages.
fn registry(system: Box<dyn System>) -> (Registry, Arc<Mutex<Answers>>) {
    let mut registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 26);
    let answers = Arc::default();
    let timed =
        |language| Box::new(Timed::<dyn Language>(Arc::clone(&answers), language)) as Box<dyn Language>;
    registry.add_languages(ebpf_profiler_hll::all().into_iter().map(timed).collect());
    (registry, answers)
}

/// Returns the words of a frame of the process's first interpreter.
fn call(pid: u32, said: &Said, place: usize, walker: &FrameWalker) -> Outcome<[u64; 2]> {
    let system = LiveSystem::default();
    let word = |address: u64| {
        let mut bytes = [0; 8];
        system.read(pid, address, &mut bytes).map(|()| u64::from_le_bytes(bytes))
    };
    let check = u64::from(walker.check(said.address, word)?) & CHECK;
    Ok([INTERPRETED | said.address, DETAIL | check << 32 | u64::from(said.places[place].0)])
}

fn is_as_said(registry: &Registry, frames: &[Frame], said: &Said, place: usize) -> bool {
    let [Frame::Script { function, line, .. }] = frames else { return false };
    registry.script(*function).is_some_and(|script| {
        (&*script.name, &*script.file, script.start_line) == (&*said.name, &*said.file, said.start_line)
            && *line == said.places[place].1
    })
}

fn time<T>(of: impl FnOnce() -> T) -> Duration {
    let begun = on_cpu();
    std::hint::black_box(of());
    on_cpu() - begun
}
