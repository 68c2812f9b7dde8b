//! A simulated machine with one or two processes, and a pipeline whose input is recorded.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::internal::pipeline::{Clock, Pipeline};
use ebpf_profiler_core::internal::registry::Registry;
use ebpf_profiler_core::internal::replay::{RecordOptions, Recorder, RecordingSymbolizer, RecordingSystem};
use ebpf_profiler_core::internal::sample::{Batch, Counts, FileId, Life, LifeEvent, MapEvent};
use ebpf_profiler_core::internal::tables::MemoryTables;
use ebpf_profiler_core::internal::testing::{FakeSystem, FakeTick};
use ebpf_profiler_core::language::{Attachment, Language, Reason, Runtime, Target};
use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::replay::Replay;
use ebpf_profiler_core::sink::folded;
use ebpf_profiler_core::symbol::{NoSymbols, Symbol, Symbolizer};
use ebpf_programs::abi::registers::{Registers, x86_64};

/// Start of the simulated program's code.
pub(crate) const CODE: u64 = 0x40_0000;

/// Address of a kernel function.
pub(crate) const KERNEL: u64 = 0xffff_ffff_8100_0040;

const STACK: u64 = 0x7fff_0000_0000;

/// A file in memory, written by one thread and read by another.
#[derive(Clone, Default)]
pub(crate) struct Shared(pub(crate) Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A symbolizer that names one kernel function.
struct KernelNames;

impl Symbolizer for KernelNames {
    fn native(&mut self, _: &Module, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        for number in (0..addresses.len()).filter(|&number| addresses[number] == KERNEL) {
            name(number, &[Symbol::new("do_it")]);
        }
    }
}

/// A language whose runtime is in every file and never ready.
pub(crate) struct AnyFile;

impl Language for AnyFile {
    fn name(&self) -> &'static str {
        "any"
    }

    fn find(&self, _: &Elf) -> Option<Box<dyn Runtime>> {
        Some(Box::new(AnyFile))
    }
}

impl Runtime for AnyFile {
    fn loops(&self) -> &[Range<u64>] {
        &[]
    }

    fn attach(&self, _: &Target<'_>) -> Result<Attachment, Reason> {
        Err(Reason::Unsupported)
    }
}

/// Returns a 64-bit ELF file of one page, all of it code.
pub(crate) fn program(build_id: u8) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    file.extend([0u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([0u16, 0, 64, 56, 2, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    file.extend([1u32, 5].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([0u64, 0, 0, 4096, 4096, 4096].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([4u32, 4].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([176u64, 0, 0, 36, 36, 4].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([4u32, 20, 3].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(b"GNU\0");
    file.extend([build_id; 20]);
    file.resize(4096, 0x90);
    file
}

pub(crate) fn map(path: &str, inode: u64) -> MapEvent {
    let file = FileId::Inode { device: (8, 1), inode };
    MapEvent::new(CODE..CODE + 4096, 0, file, path)
}

/// Returns a system in which process 7 runs `path`; in its code a call ends at every multiple of
/// 64.
pub(crate) fn system(path: &str) -> FakeSystem {
    let mut code = vec![0x90; 4096];
    code.iter_mut().skip(59).step_by(64).for_each(|byte| *byte = 0xe8);
    FakeSystem::default()
        .process(7, path, vec![map(path, 42)])
        .file(path, &program(1))
        .memory(7, CODE, &code)
        .memory(8, CODE, &code)
}

/// Returns batches: process 7 is sampled, forks process 8, which is sampled, executes another
/// program, and ends.
pub(crate) fn batches(path: &str) -> Vec<Batch> {
    let mut first = Batch::default();
    first.push_tick(&raw(100, 7).bytes());
    first.push_tick(&FakeTick::walked(200, 7, "cat", &[CODE + 8, CODE + 128]).kernel(&[KERNEL]).bytes());
    first.push_life(LifeEvent { time: 300, pid: 8, life: Life::Forked { parent: 7 } });
    let mut second = Batch::default();
    second.push_tick(&raw(400, 8).bytes());
    second.push_life(LifeEvent { time: 500, pid: 8, life: Life::Executed });
    second.push_life(LifeEvent { time: 510, pid: 8, life: Life::Mapped(map(path, 42)) });
    second.push_tick(&FakeTick::walked(520, 8, "dog", &[CODE + 16, CODE + 0x5000]).bytes());
    second.push_life(LifeEvent { time: 600, pid: 8, life: Life::Exited });
    second.push_tick(&raw(610, 9).bytes());
    second.push_tick(&[1, 2, 3, 4, 5, 6, 7, 8]);
    second.push_life(LifeEvent { time: 700, pid: 0, life: Life::Lost { count: 3 } });
    vec![first, second]
}

/// Returns a raw sample whose stack has two callers, by frame pointer.
pub(crate) fn raw(time: u64, pid: u32) -> FakeTick {
    let mut registers = Registers { pc: CODE + 8, ..Registers::default() };
    registers.values[x86_64::SP] = STACK;
    registers.values[x86_64::FP] = STACK + 16;
    registers.known = 1 << x86_64::SP | 1 << x86_64::FP;
    let stack = [0, 0, STACK + 48, CODE + 64, 0, 0, 0, CODE + 128, 0, 0];
    FakeTick::raw(time, pid, "cat", &registers, &stack)
}

/// Returns a recorder that writes to memory.
pub(crate) fn recorder(out: &Shared) -> Recorder {
    let options = RecordOptions::new(Clock { offset: 1_000 }, Duration::from_millis(10));
    Recorder::new(out.clone(), &options).unwrap()
}

/// Processes and records the batches; returns the recording and the text of each batch's profile.
pub(crate) fn record(system: FakeSystem, batches: Vec<Batch>) -> (Vec<u8>, Vec<String>) {
    record_with(Vec::new(), system, batches)
}

/// Records like [`record`], with languages.
pub(crate) fn record_with(
    languages: Vec<Box<dyn Language>>,
    system: FakeSystem,
    batches: Vec<Batch>,
) -> (Vec<u8>, Vec<String>) {
    let out = Shared::default();
    let recorder = recorder(&out);
    let system = Box::new(RecordingSystem::new(system, recorder.clone()));
    let mut registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 20);
    registry.set_journal(Box::new(recorder.clone()));
    registry.scan();
    registry.add_languages(languages);
    registry.prepare(0);
    let mut pipeline = Pipeline::new(registry, Clock { offset: 1_000 }, Duration::from_millis(10));
    let mut names = RecordingSymbolizer::new(Box::new(KernelNames), recorder.clone());
    let mut texts = Vec::new();
    for mut batch in batches {
        recorder.batch(&batch);
        pipeline.take(&mut batch);
        recorder.flush(&Counts::default());
        texts.push(text(&pipeline.finish().symbolize(&mut names)));
    }
    assert_eq!(recorder.finish().error, None);
    let recording = out.0.lock().unwrap().clone();
    (recording, texts)
}

pub(crate) fn replay(recording: &[u8]) -> Replay {
    Replay::read(io::Cursor::new(recording.to_vec())).unwrap().symbolizer(NoSymbols)
}

pub(crate) fn text(profile: &Profile) -> String {
    let mut text = Vec::new();
    folded::write(profile, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}
