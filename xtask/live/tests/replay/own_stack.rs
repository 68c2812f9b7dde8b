//! This process records a raw sample of itself: registers and a copy of its stack, as the kernel
//! side would send them.
//!
//! A stack that is unwound wrongly can be reproduced from a few lines, without root and without
//! BPF.

use std::arch::asm;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Cursor, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebpf_profiler_core::internal::pipeline::{Clock, Pipeline};
use ebpf_profiler_core::internal::process::System;
use ebpf_profiler_core::internal::registry::Registry;
use ebpf_profiler_core::internal::replay::{RecordOptions, Recorder, RecordingSystem};
use ebpf_profiler_core::internal::sample::{Batch, Counts, Life, LifeEvent};
use ebpf_profiler_core::internal::tables::MemoryTables;
use ebpf_profiler_core::internal::testing::{FakeSystem, FakeTick};
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::replay::Replay;
use ebpf_profiler_core::symbol::{NoSymbols, Symbols};
use ebpf_profiler_core::trace::Stop;
use ebpf_profiler_unwind::case::Case;
use ebpf_programs::abi::record::MAX_COPY;
use ebpf_programs::abi::registers::{Registers, x86_64};
use examples::RecordedStack;

const DEPTH: usize = 30;

/// Recurses `depth` times, then takes the raw sample.
#[inline(never)]
fn descend(depth: usize) -> FakeTick {
    let tick = if depth > 1 { descend(black_box(depth - 1)) } else { tick_here() };
    // Work after the call prevents a tail call.
    black_box(tick)
}

#[inline(never)]
fn tick_here() -> FakeTick {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: reads three registers and changes nothing.
    unsafe {
        asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp, options(nomem, nostack));
    }
    let mut registers = Registers { pc, known: 1 << x86_64::SP | 1 << x86_64::FP, ..Registers::default() };
    registers.values[x86_64::SP] = sp;
    registers.values[x86_64::FP] = fp;
    let mut stack = vec![0; MAX_COPY];
    let len = File::open("/proc/self/mem").unwrap().read_at(&mut stack, sp).unwrap();
    let words: Vec<u64> =
        stack[..len].chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
    FakeTick::raw(1_000, std::process::id(), "own", &registers, &words)
}

/// A file in memory.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Processes the raw sample in a pipeline and records it.
fn record(tick: &FakeTick) -> Vec<u8> {
    let out = Shared::default();
    let recorder =
        Recorder::new(out.clone(), &RecordOptions::new(Clock::default(), Duration::from_millis(10))).unwrap();
    let system = RecordingSystem::new(FakeSystem::this_process().unwrap(), recorder.clone());
    let tables = Box::new(MemoryTables::default());
    let compiler = Box::new(ebpf_profiler_unwind::tables());
    let mut registry = Registry::new(Box::new(system), tables, Some(compiler), 1 << 30);
    registry.scan();
    let mut pipeline = Pipeline::new(registry, Clock::default(), Duration::from_millis(10));
    let mut batch = Batch::default();
    let pid = std::process::id();
    let maps = FakeSystem::this_process().unwrap().mappings(pid).unwrap();
    for life in [Life::Executed].into_iter().chain(maps.into_iter().map(Life::Mapped)) {
        batch.push_life(LifeEvent { time: 1, pid, life });
    }
    batch.push_tick(&tick.bytes());
    recorder.batch(&batch);
    pipeline.take(&mut batch);
    recorder.flush(&Counts::default());
    pipeline.finish().symbolize(&mut NoSymbols);
    assert_eq!(recorder.finish().error, None);
    out.0.lock().unwrap().clone()
}

fn functions(profile: &Profile) -> (Stop, Vec<String>) {
    let sample = profile.samples().next().unwrap();
    let calls = sample.trace().calls().map(|call| call.to_string()).collect();
    (sample.trace().stop(), calls)
}

#[test]
fn a_stack_of_this_process_is_walked_again_from_its_recording() {
    let recording = record(&descend(DEPTH));
    let replay = || Replay::read(Cursor::new(recording.clone())).unwrap().symbolizer(Symbols::default());

    let (stop, calls) = functions(&replay().unwind(ebpf_profiler_unwind::tables()).profile().unwrap());
    assert_eq!(stop, Stop::Root, "{calls:#?}");
    let descents = calls.iter().filter(|call| call.contains("descend")).count();
    assert_eq!(descents, DEPTH, "{calls:#?}");
    assert!(calls.last().unwrap().contains("tick_here"), "{calls:#?}");

    // Without tables the walk ends early and reports that: the code at the calls, which frame-pointer
    // unwinding inspects, was not read during the recording.
    let (stop, calls) = functions(&replay().profile().unwrap());
    assert_ne!(stop, Stop::Root, "{calls:#?}");
    assert!(calls.last().unwrap().contains("tick_here"), "{calls:#?}");
}

#[test]
fn a_stack_of_this_process_becomes_a_case() {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("own.ticks");
    std::fs::write(&path, record(&descend(DEPTH))).unwrap();
    let stacks = RecordedStack::all(&path).unwrap();
    assert_eq!(stacks.len(), 1);
    let case = stacks[0].case("itself");
    assert_eq!(case.expected().stop, Stop::Root, "{case}");
    assert!(case.expected().frames.len() > DEPTH, "{case}");
    // The parsed case needs neither this process, nor its stack, nor its files.
    let again: Case = case.to_string().parse().unwrap();
    assert_eq!(again.walk(), *case.expected());
}
