//! Tests of the thread that compiles tables, and of tables that failed.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use ebpf_programs::abi::VERSION;
use ebpf_programs::abi::arena::UNIT;
use ebpf_programs::abi::mapping::{Mapping, kind};
use ebpf_programs::abi::registers::{Registers, x86_64};

use super::*;
use crate::elf::{Elf, ElfError, ReadAt};
use crate::pipeline::{Clock, Pipeline};
use crate::process::{Description, System};
use crate::sample::{Batch, FileId, Life, LifeEvent, MapEvent, TickRecord};
use crate::symbol::NoSymbols;
use crate::tables::MemoryTables;
use crate::testing::{FakeSystem, FakeTick};
use crate::trace::Stop;
use crate::unwind::UnwindCompiler;

const START: u64 = 0x40_0000;
const SECOND: u64 = 1_000_000_000;

fn own_file() -> Elf {
    Elf::open(std::fs::File::open("/proc/self/exe").unwrap()).unwrap()
}

/// Returns a table whose only row marks all code from `address` on as outermost.
fn outermost(address: u64) -> Compiled {
    let base = address & !0xffff;
    let mut words = vec![base as u32, (base >> 32) as u32, 1, 2, 1, 92, 1 << 24 | 16 << 16 | VERSION, 0];
    words.extend([1 << 16, 0, 0, 0]); // the row, padded
    words.extend([0, 0, 0, 0, 2, 0, 0, 0]); // no data; outermost
    words.extend([8, 44, 9 << 16 | 8]); // a group, its page
    Compiled::new(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
}

/// Files that map this program's file, and may not open it.
struct Machine {
    system: FakeSystem,
    /// Processes whose files cannot be opened after the first time.
    gone: Vec<u32>,
    opened: Arc<AtomicU32>,
    /// Number of openings that fail at first.
    failures: Arc<AtomicU32>,
}

impl Machine {
    fn new(pids: &[u32], gone: &[u32]) -> Machine {
        let file = std::fs::read("/proc/self/exe").unwrap();
        let system = pids.iter().fold(FakeSystem::default(), |system, &pid| {
            system.process(pid, "/bin/large", vec![map(1), map(2)])
        });
        let system = system.file("/bin/large1", &file).file("/bin/large2", &file);
        Machine { system, gone: gone.to_vec(), opened: Arc::default(), failures: Arc::default() }
    }

    fn registry(self, compiler: impl UnwindCompiler + 'static) -> Registry {
        Registry::new(Box::new(self), Box::new(MemoryTables::default()), Some(Box::new(compiler)), 1 << 24)
    }
}

/// Returns the mapping of a file. Files are told apart by their inodes, as they have no build ids here.
fn map(number: u64) -> MapEvent {
    let code = own_file().segments().iter().find(|segment| segment.is_code()).unwrap().offset & !0xfff;
    let file = FileId::Inode { device: (8, 1), inode: number };
    let start = START * number;
    MapEvent::new(start..start + 0x1000, code, file, format!("/bin/large{number}").as_str())
}

impl System for Machine {
    fn processes(&self) -> Vec<u32> {
        self.system.processes()
    }

    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>> {
        self.system.mappings(pid)
    }

    fn describe(&self, pid: u32) -> Description {
        self.system.describe(pid)
    }

    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener> {
        let opener = self.system.opener(pid, mapping);
        let (is_gone, opened) = (self.gone.contains(&pid), self.opened.clone());
        let inode = match mapping.file {
            FileId::Inode { inode, .. } => inode,
            _ => 0,
        };
        let tries = AtomicU32::new(0);
        let failures = self.failures.clone();
        Arc::new(Foreign { opener, inode, is_gone, opened, tries, failures })
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.system.read(pid, address, buffer)
    }
}

/// A file that is shared by inode only.
struct Foreign {
    opener: Arc<dyn Opener>,
    inode: u64,
    is_gone: bool,
    opened: Arc<AtomicU32>,
    tries: AtomicU32,
    failures: Arc<AtomicU32>,
}

impl Opener for Foreign {
    fn open(&self) -> io::Result<Box<dyn ReadAt>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let left = self.failures.load(Ordering::Relaxed);
        self.failures.store(left.saturating_sub(1), Ordering::Relaxed);
        if left > 0 || self.tries.fetch_add(1, Ordering::Relaxed) > 0 && self.is_gone {
            return Err(io::Error::from_raw_os_error(24));
        }
        self.opener.open()
    }

    fn foreign_inode(&self) -> Option<(u64, u64)> {
        Some((1, self.inode))
    }
}

/// Returns the kinds of a process's published mappings.
fn kinds(registry: &mut Registry, pid: u32) -> Vec<u16> {
    let process = registry.publish(pid, 0).unwrap();
    let word = process.mappings * (UNIT / 4) as u32;
    let at = core::mem::offset_of!(Mapping, kind) / 4;
    (0..process.count)
        .map(|index| {
            let piece = registry.tables().piece(word + index * (size_of::<Mapping>() / 4) as u32).unwrap();
            piece[at] as u16
        })
        .collect()
}

fn take_built(registry: &mut Registry, count: usize) {
    for _ in 0..count {
        assert!(registry.builder.as_ref().unwrap().queue.wait(&|| false));
        assert!(registry.take_built(0));
    }
}

#[test]
fn thread_compiles_tables_of_large_files() {
    let compiler = |elf: &Elf| -> Result<Compiled, ElfError> { Ok(outermost(elf.segments()[0].address)) };
    let mut registry = Machine::new(&[7], &[]).registry(compiler);
    let queue = Arc::new(BuildQueue::default());
    registry.build_with(queue.clone(), 1);
    assert_eq!(kinds(&mut registry, 7), [kind::PENDING; 2]);
    assert!(!registry.build_table(7, START, 0) && registry.is_building(7, START));
    assert!(!registry.is_building(7, START * 2));
    let thread = thread::spawn(move || queue.run(&|_| {}));
    take_built(&mut registry, 1);
    assert_eq!(kinds(&mut registry, 7), [kind::TABLE, kind::PENDING]);
    assert_eq!(registry.stats().tables, 1);
    drop(registry);
    thread.join().unwrap();
}

#[test]
fn files_with_little_code_are_compiled_at_once() {
    let compiler = |_: &Elf| -> Result<Compiled, ElfError> { Ok(outermost(0)) };
    let mut registry = Machine::new(&[7], &[]).registry(compiler);
    registry.build_with(Arc::default(), u64::MAX);
    registry.publish(7, 0);
    assert!(registry.build_table(7, START, 0));
    assert_eq!(kinds(&mut registry, 7), [kind::TABLE, kind::PENDING]);
}

#[test]
fn thread_compiles_the_hottest_file_first() {
    let compiler = |_: &Elf| -> Result<Compiled, ElfError> { Ok(outermost(0)) };
    let mut registry = Machine::new(&[7], &[]).registry(compiler);
    let queue = Arc::new(BuildQueue::default());
    registry.build_with(queue.clone(), 1);
    registry.publish(7, 0);
    for address in [START, START * 2, START * 2] {
        registry.build_table(7, address, 0);
    }
    let hottest = registry.module_at(7, START * 2).unwrap();
    assert_eq!(queue.next().map(|(module, _)| module), Some(hottest));
}

#[test]
fn compilation_ends_when_the_registry_is_dropped() {
    let (begun, has_begun) = channel();
    let compiler = move |elf: &Elf| -> Result<Compiled, ElfError> {
        let _ = begun.send(());
        // As one of a file without an end.
        loop {
            elf.fill(0, &mut [0; 8])?;
        }
    };
    let mut registry = Machine::new(&[7], &[]).registry(compiler);
    let queue = Arc::new(BuildQueue::default());
    registry.build_with(queue.clone(), 1);
    registry.publish(7, 0);
    registry.build_table(7, START, 0);
    let thread = thread::spawn(move || queue.run(&|_| {}));
    has_begun.recv().unwrap();
    drop(registry);
    thread.join().unwrap();
}

#[test]
fn failed_table_is_built_through_another_process() {
    let compiler = |_: &Elf| -> Result<Compiled, ElfError> { Ok(outermost(0)) };
    let mut registry = Machine::new(&[7, 8], &[7]).registry(compiler);
    registry.publish(7, 0);
    assert!(registry.build_table(7, START, 0));
    assert_eq!(kinds(&mut registry, 7), [kind::BARE, kind::PENDING]);
    assert_eq!(registry.stats().without_table["files that could not be opened"], 1);
    assert_eq!(kinds(&mut registry, 8), [kind::BARE, kind::PENDING], "published while it has none");
    registry.publish_changed(SECOND - 1);
    assert_eq!(registry.stats().tables, 0, "too early");
    registry.apply(&LifeEvent { time: SECOND, pid: 7, life: Life::Exited });
    registry.publish_changed(SECOND);
    assert_eq!(kinds(&mut registry, 8), [kind::TABLE, kind::PENDING]);
    assert_eq!(kinds(&mut registry, 7), [kind::TABLE, kind::PENDING]);
    assert!(registry.stats().without_table.is_empty());
    registry.publish_changed(2 * SECOND);
    assert!(registry.modules.failed.is_empty());
}

#[test]
fn failed_table_is_tried_less_and_less_often() {
    let compiler = |_: &Elf| -> Result<Compiled, ElfError> { Err(ElfError::Read(io::ErrorKind::TimedOut)) };
    let machine = Machine::new(&[7], &[]);
    let opened = machine.opened.clone();
    let mut registry = machine.registry(compiler);
    registry.publish(7, 0);
    registry.build_table(7, START, 0);
    let before = opened.load(Ordering::Relaxed);
    for second in 0..1000 {
        registry.publish_changed(second * SECOND);
    }
    // After 1, 3, 7, 15, 31, 63 s, and then every 64 s.
    let tries = opened.load(Ordering::Relaxed) - before;
    assert!((15..=22).contains(&tries), "{tries}");
    assert_eq!(registry.stats().without_table.values().sum::<u64>(), 1);
}

#[test]
fn files_that_could_not_be_opened_are_tried_again() {
    let compiler = |_: &Elf| -> Result<Compiled, ElfError> { Ok(outermost(0)) };
    let machine = Machine::new(&[7], &[]);
    let failures = machine.failures.clone();
    let mut registry = machine.registry(compiler);
    failures.store(2, Ordering::Relaxed);
    assert_eq!(kinds(&mut registry, 7), [kind::BARE; 2]);
    let sample = |registry: &mut Registry, time| {
        let words = words_of(&FakeTick::walked(time, 7, "large", &[START]));
        let tick = TickRecord::decode(&words).unwrap();
        assert_eq!(registry.check_walk(&tick), Ok(()));
        registry.publish_changed(time);
    };
    sample(&mut registry, SECOND - 1);
    assert_eq!(kinds(&mut registry, 7), [kind::BARE; 2], "too early");
    sample(&mut registry, SECOND);
    assert_eq!(kinds(&mut registry, 7), [kind::PENDING; 2]);
}

fn words_of(tick: &FakeTick) -> Vec<u64> {
    tick.bytes().chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn raw_samples_wait_for_their_table() {
    let code = map(1).offset;
    let compiler =
        move |elf: &Elf| -> Result<Compiled, ElfError> { Ok(outermost(elf.code_address(code).unwrap())) };
    let mut registry = Machine::new(&[7], &[]).registry(compiler);
    let queue = Arc::new(BuildQueue::default());
    registry.build_with(queue.clone(), 1);
    let mut pipeline = Pipeline::new(registry, Clock::default(), std::time::Duration::from_millis(10));
    let mut registers = Registers { pc: START + 0x10, ..Registers::default() };
    registers.values[x86_64::SP] = 0x7000;
    registers.known = 1 << x86_64::SP;
    let take = |pipeline: &mut Pipeline, times: &[u64]| {
        let mut batch = Batch::default();
        for &time in times {
            batch.push_tick(&FakeTick::raw(time, 7, "large", &registers, &[0, 0]).bytes());
        }
        pipeline.take(&mut batch);
    };
    take(&mut pipeline, &[1, 2]);
    assert_eq!(pipeline.stats().samples, 0, "they wait");
    let thread = thread::spawn(move || queue.run(&|_| {}));
    take_one(&mut pipeline);
    take(&mut pipeline, &[3]);
    let stops = |pipeline: &mut Pipeline| {
        let profile = pipeline.finish().symbolize(&mut NoSymbols);
        profile.samples().map(|sample| (sample.trace().stop(), sample.count())).collect::<Vec<_>>()
    };
    assert_eq!(stops(&mut pipeline), [(Stop::Root, 3)]);
    assert_eq!(pipeline.stats().raw, 3);
    drop(pipeline);
    thread.join().unwrap();
}

fn take_one(pipeline: &mut Pipeline) {
    assert!(pipeline.registry().builder.as_ref().unwrap().queue.wait(&|| false));
}

#[test]
fn waiting_samples_end_with_the_profile_or_their_program() {
    let compiler = |_: &Elf| -> Result<Compiled, ElfError> { Ok(outermost(0)) };
    let mut registry = Machine::new(&[7], &[]).registry(compiler);
    registry.build_with(Arc::default(), 1);
    let mut pipeline = Pipeline::new(registry, Clock::default(), std::time::Duration::from_millis(10));
    let registers = Registers { pc: START + 0x10, known: 1 << x86_64::SP, ..Registers::default() };
    let tick = |time| FakeTick::raw(time, 7, "large", &registers, &[0, 0]).bytes();
    let mut batch = Batch::default();
    batch.push_tick(&tick(1));
    batch.push_life(LifeEvent { time: 5, pid: 7, life: Life::Executed });
    pipeline.take(&mut batch);
    assert_eq!(pipeline.stats().samples, 1, "another program follows");
    let mut batch = Batch::default();
    batch.push_tick(&tick(2 * SECOND));
    pipeline.take(&mut batch);
    let profile = pipeline.finish().symbolize(&mut NoSymbols);
    assert_eq!(profile.count(), 2);
    assert!(profile.samples().all(|sample| !sample.trace().is_whole()));
}

#[test]
fn equal_tables_are_in_the_arena_once() {
    let compiler = |_: &Elf| -> Result<Compiled, ElfError> { Ok(outermost(0)) };
    let mut registry = Machine::new(&[7], &[]).registry(compiler);
    registry.publish(7, 0);
    assert!(registry.build_table(7, START, 0) && registry.build_table(7, START * 2, 0));
    let [first, second] = [START, START * 2].map(|address| registry.module_at(7, address).unwrap());
    let table = |registry: &Registry, id| registry.modules.get(id).unwrap().table;
    assert_ne!(first, second);
    assert_eq!(table(&registry, first), table(&registry, second));
    let with_one = registry.stats().table_bytes;
    // Derived rules are those of one file.
    let mut derived = outermost(0);
    derived.image.extend([0; 16]);
    derived.derived.push(0..1);
    let plain = table(&registry, second);
    registry.use_derived(first, derived, 0);
    assert_ne!(table(&registry, first), plain);
    assert_eq!(table(&registry, second), plain);
    registry.publish_changed(SECOND);
    assert_eq!(kinds(&mut registry, 7), [kind::TABLE; 2]);
    let words = |registry: &Registry, index: usize| {
        let process = registry.processes.entries[&7].published.as_ref().unwrap().process;
        let at = process.mappings as usize * UNIT + index * size_of::<Mapping>();
        registry.tables().piece(((at + core::mem::offset_of!(Mapping, table)) / 4) as u32).unwrap()[0]
    };
    let place = |table| match table {
        Table::Ready { place, .. } => place,
        _ => u32::MAX,
    };
    assert_eq!(words(&registry, 0), place(table(&registry, first)));
    assert_eq!(words(&registry, 1), place(plain));
    assert!(registry.stats().table_bytes > with_one);
    registry.apply(&LifeEvent { time: SECOND, pid: 7, life: Life::Executed });
    for batch in 2..9 {
        registry.publish_changed(batch * SECOND);
    }
    registry.free_unused(1000 * SECOND);
    assert_eq!(registry.stats().table_bytes, 0);
}
