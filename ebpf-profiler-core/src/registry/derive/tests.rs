//! Tests of tables with derived rules.

use std::thread;
use std::time::Duration;

use ebpf_programs::abi::arena::UNIT;
use ebpf_programs::abi::mapping::{Mapping, kind};
use ebpf_programs::abi::record::frame::{BARE, EXACT, GUESSED};

use super::*;
use crate::elf::{Elf, ElfError};
use crate::sample::{FileId, Life, LifeEvent, MapEvent};
use crate::tables::MemoryTables;
use crate::testing::FakeSystem;
use crate::unwind::{BareFunction, UnwindCompiler};

const START: u64 = 0x40_0000;

/// Compiles tables of 16 bytes, and derives rules of the first 256 bytes of code.
struct Derives;

impl UnwindCompiler for Derives {
    fn compile(&self, _: &Elf) -> Result<Compiled, ElfError> {
        Ok(Compiled::new(vec![1; 16]))
    }

    fn compile_derived(&self, elf: &Elf, _: &[BareFunction]) -> Option<Result<Compiled, ElfError>> {
        let code = elf.code_address(map().offset)?;
        let mut compiled = Compiled::new(vec![2; 32]);
        compiled.derived.push(code..code + 256);
        Some(Ok(compiled))
    }
}

fn map() -> MapEvent {
    let elf = Elf::open(std::fs::File::open("/proc/self/exe").unwrap()).unwrap();
    let offset = elf.segments().iter().find(|segment| segment.is_code()).unwrap().offset & !0xfff;
    let file = FileId::Inode { device: (8, 1), inode: 1 };
    MapEvent::new(START..START + 0x1000, offset, file, "/lib/kernels.so")
}

/// Returns a registry with two processes whose file has a table, and the queue of its rules.
fn registry(compiler: impl UnwindCompiler + 'static) -> (Registry, Arc<BuildQueue>) {
    let file = std::fs::read("/proc/self/exe").unwrap();
    let system = FakeSystem::default().process(7, "/bin/a", vec![map()]).process(8, "/bin/b", vec![map()]);
    let system = Box::new(system.file("/lib/kernels.so", &file));
    let mut registry =
        Registry::new(system, Box::new(MemoryTables::default()), Some(Box::new(compiler)), 1 << 24);
    let queue = Arc::new(BuildQueue::default());
    registry.derive_with(queue.clone(), Arc::new(Pace::new(1.0, Duration::from_secs(60))));
    registry.publish(7, 0);
    registry.build_table(7, START, 0);
    registry.publish(8, 0);
    (registry, queue)
}

/// Returns the first byte of the table of a process's mapping, and its kind.
fn table(registry: &mut Registry, pid: u32) -> (u8, u16) {
    let process = registry.publish(pid, 0).unwrap();
    let at = process.mappings as usize * UNIT + core::mem::offset_of!(Mapping, table);
    let words = registry.tables().piece((at / 4) as u32).unwrap();
    let (place, kind) = (words[0], words[1] as u16);
    let table = registry.tables().piece(place * (UNIT / 4) as u32).unwrap();
    (table[0] as u8, kind)
}

fn walk(registry: &mut Registry, words: &[u64]) -> Vec<Option<Found>> {
    let mut frames = Vec::new();
    registry.frames(7, words, 0, &mut frames);
    frames.into_iter().map(Frame::found).collect()
}

#[test]
fn rules_are_derived_where_callers_were_guessed() {
    let (mut registry, queue) = registry(Derives);
    let id = registry.processes.entries[&7].regions.find(START).unwrap().file.unwrap().module;
    let guess = [START | EXACT | BARE, (START + 0x200) | GUESSED, START + 0x300];
    let exact = [Some(Found::Uncalled), Some(Found::Exactly), Some(Found::Exactly)];
    for _ in 1..MIN_GUESSES {
        walk(&mut registry, &guess);
    }
    assert!(!queue.has(id));
    walk(&mut registry, &guess);
    assert!(queue.has(id));
    // The child shares the published state of its parent.
    registry.apply(&LifeEvent { time: 0, pid: 9, life: Life::Forked { parent: 7 } });
    assert_eq!([7, 8, 9].map(|pid| table(&mut registry, pid)), [(1, kind::TABLE); 3]);
    let in_thread = queue.clone();
    let thread = thread::spawn(move || in_thread.run(&|_| {}));
    assert!(queue.wait(&|| false));
    assert_eq!(walk(&mut registry, &[START | EXACT, START + 0x200, START + 0x300]), exact);
    registry.take_built(0);
    assert_eq!([7, 8, 9].map(|pid| table(&mut registry, pid)), [(2, kind::TABLE); 3]);
    assert_eq!(registry.stats().derived_tables, 1);
    let derived = [Some(Found::Uncalled), Some(Found::Derived), Some(Found::Exactly)];
    assert_eq!(walk(&mut registry, &[START | EXACT, START + 0x200, START + 0x300]), derived);
    let guessed = [Some(Found::Uncalled), Some(Found::Guessed), Some(Found::Exactly)];
    assert_eq!(walk(&mut registry, &guess), guessed, "walked before");
    (0..9).for_each(|_| _ = walk(&mut registry, &guess));
    assert!(!queue.has(id), "once is enough");
    drop(registry);
    thread.join().unwrap();
}

#[test]
fn withdrawn_states_have_the_new_table_too() {
    let (mut registry, queue) = registry(Derives);
    let former = registry.processes.entries[&7].published.clone().unwrap();
    // Walks that began before may still use it.
    registry.withdraw(8);
    let id = former.modules[0];
    (0..MIN_GUESSES).for_each(|_| registry.count_guess(id));
    let (module, job) = queue.next().unwrap();
    let Ok(compiled) = job.run() else { panic!("it compiles") };
    registry.use_derived(module, compiled, 0);
    for state in registry.publisher.withdrawn().chain([&former]) {
        let at = state.process.mappings as usize * UNIT + core::mem::offset_of!(Mapping, table);
        let place = registry.tables().piece((at / 4) as u32).unwrap()[0];
        let Some(Table::Ready { place: expected, .. }) = registry.modules.get(id).map(|entry| entry.table)
        else {
            panic!("it has a table")
        };
        assert_eq!(place, expected);
    }
    assert_eq!(registry.publisher.withdrawn().count(), 1);
}

#[test]
fn compiler_without_derived_rules_is_asked_once() {
    let compiler = |_: &Elf| -> Result<Compiled, ElfError> { Ok(Compiled::new(vec![1; 16])) };
    let (mut registry, queue) = registry(compiler);
    let id = registry.processes.entries[&7].regions.find(START).unwrap().file.unwrap().module;
    (0..MIN_GUESSES).for_each(|_| registry.count_guess(id));
    let (module, job) = queue.next().unwrap();
    let Ok(compiled) = job.run() else { panic!("it compiles") };
    registry.use_derived(module, compiled, 0);
    assert_eq!(registry.stats().derived_tables, 0);
    assert_eq!(table(&mut registry, 7), (1, kind::TABLE));
    (0..9).for_each(|_| registry.count_guess(id));
    assert_eq!(registry.modules.get(id).unwrap().derivation.guesses, MIN_GUESSES);
}
