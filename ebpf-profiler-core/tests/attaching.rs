//! Attach attempts before the dynamic loader has finished, and after the runtime has changed.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::internal::process::{Description, System};
use ebpf_profiler_core::internal::registry::Registry;
use ebpf_profiler_core::internal::sample::{FileId, Life, LifeEvent, MapEvent};
use ebpf_profiler_core::internal::tables::MemoryTables;
use ebpf_profiler_core::internal::testing::FakeSystem;
use ebpf_profiler_core::language::{
    Attached, Attachment, FramePath, FrameWalker, Function, Language, Memory, Reason, Runtime, Target,
};
use ebpf_profiler_core::process::Opener;
use ebpf_profiler_core::trace::Frame;
use ebpf_programs::abi::arena::UNIT;
use ebpf_programs::abi::mapping::{Mapping, kind};
use ebpf_programs::abi::record::frame::{DETAIL, INTERPRETED, LOOP};

const PID: u32 = 7;
const START: u64 = 0x40_0000;
const SECOND: u64 = 1_000_000_000;

/// Number of attach attempts after which the runtime returns another walker.
const CHANGES: u32 = 1 << 20;

/// A runtime in every file, whose first `answers` attach attempts fail with `first`.
struct Slow {
    asked: Arc<AtomicU32>,
    answers: u32,
    first: Reason,
    owns_memory: bool,
}

impl Language for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn find(&self, _: &Elf) -> Option<Box<dyn Runtime>> {
        let Slow { ref asked, answers, first, owns_memory } = *self;
        Some(Box::new(Slow { asked: asked.clone(), answers, first, owns_memory }))
    }
}

impl Runtime for Slow {
    fn loops(&self) -> &[Range<u64>] {
        &[]
    }

    fn owns_anonymous_memory(&self) -> bool {
        self.owns_memory
    }

    fn attach(&self, _: &Target<'_>) -> Result<Attachment, Reason> {
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            asked if asked < self.answers => Err(self.first),
            asked => {
                let path = FramePath::from_address(if asked < CHANGES { 0x1000 } else { 0x2000 }, &[]);
                let walker = FrameWalker::list(path).build().unwrap();
                Ok(Attachment::new(walker, Named))
            }
        }
    }
}

struct Named;

impl Attached for Named {
    fn function(&mut self, _: u64, _: u32, _: &dyn Memory) -> Result<Function, Reason> {
        Ok(Function::new("f"))
    }
}

/// Returns a registry with a published process with such a runtime, and the number of attach
/// attempts.
fn world(first: Reason, answers: u32) -> (Registry, Arc<AtomicU32>) {
    let (mut registry, asked) = untold(START, first, answers);
    assert!(registry.publish(PID, 0).is_some());
    (registry, asked)
}

/// Returns the same before the process is published; its file is mapped at `place`.
fn untold(place: u64, first: Reason, answers: u32) -> (Registry, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let slow = Slow { asked: asked.clone(), answers, first, owns_memory: false };
    (with_maps(slow, vec![map(place)]), asked)
}

fn with_maps(slow: Slow, maps: Vec<MapEvent>) -> Registry {
    on_system(slow, Box::new(system_with(maps)))
}

fn system_with(maps: Vec<MapEvent>) -> FakeSystem {
    let file = std::fs::read("/proc/self/exe").unwrap();
    FakeSystem::default().process(PID, "/bin/slow", maps).file("/bin/slow", &file)
}

fn on_system(slow: Slow, system: Box<dyn System>) -> Registry {
    let mut registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 20);
    registry.add_languages(vec![Box::new(slow)]);
    registry
}

/// Returns a mapping of the file at `start`.
fn map(start: u64) -> MapEvent {
    let file = FileId::Inode { device: (8, 1), inode: 1 };
    MapEvent::new(start..start + 0x1000, code_offset(), file, "/bin/slow")
}

/// Returns the offset of the code in the file.
fn code_offset() -> u64 {
    let elf = Elf::open(std::fs::File::open("/proc/self/exe").unwrap()).unwrap();
    elf.segments().iter().find(|segment| segment.is_code()).unwrap().offset & !0xfff
}

/// Processes 100 samples per second in which the loop ran without script frames.
fn tick(registry: &mut Registry, seconds: Range<u64>) {
    for number in seconds.start * 100..seconds.end * 100 {
        registry.frames(PID, &[START | LOOP], number * SECOND / 100, &mut Vec::new());
    }
}

#[test]
fn attaches_after_failed_attempts() {
    for first in [Reason::NotReady, Reason::Implausible, Reason::Unreadable] {
        let (mut registry, asked) = world(first, 5);
        tick(&mut registry, 1..2);
        assert!(asked.load(Ordering::Relaxed) > 5, "{first}");
        assert_eq!(registry.stats().interpreters.refused, 0, "{first}");
    }
}

#[test]
fn limits_attach_attempts() {
    for (first, most) in [(Reason::Implausible, 64), (Reason::Unsupported, 1)] {
        let (mut registry, asked) = world(first, u32::MAX);
        tick(&mut registry, 1..60);
        assert_eq!(asked.load(Ordering::Relaxed), most, "{first}");
        assert_eq!(registry.stats().interpreters.refused, 1, "{first}");
    }
}

/// A runtime read too early may look plausible and lead to no frame.
#[test]
fn rechecks_runtime_until_its_first_script_frame() {
    let (mut registry, asked) = world(Reason::NotReady, 0);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    tick(&mut registry, 1..2);
    let doubted = asked.load(Ordering::Relaxed);
    assert!((2..=64).contains(&doubted));
    registry.frames(PID, &[START | LOOP, INTERPRETED | 0x1000, DETAIL], 2 * SECOND, &mut Vec::new());
    tick(&mut registry, 3..60);
    let again = asked.load(Ordering::Relaxed) - doubted;
    assert!((100..=300).contains(&again), "{again}");
}

/// As after a program that replaced its interpreter: the functions have the same addresses.
#[test]
fn names_are_those_of_the_current_interpreter() {
    let (mut registry, asked) = world(Reason::NotReady, 0);
    let functions = |registry: &Registry| registry.stats().interpreters.functions;
    let call = |registry: &mut Registry, second: u64| {
        registry.frames(PID, &[START | LOOP, INTERPRETED | 0x1000, DETAIL], second * SECOND, &mut Vec::new());
    };
    call(&mut registry, 1);
    call(&mut registry, 2);
    assert_eq!(functions(&registry), 1);
    // A loop without script frames keeps the cached names, unless the runtime has changed.
    tick(&mut registry, 3..4);
    call(&mut registry, 4);
    assert_eq!(functions(&registry), 1);
    asked.store(CHANGES, Ordering::Relaxed);
    tick(&mut registry, 5..6);
    call(&mut registry, 6);
    assert_eq!(functions(&registry), 2);
}

/// Unmapping is not reported. A second mapping of a file at the same address implies that it was
/// unmapped in between.
#[test]
fn attaches_again_to_runtime_reloaded_at_same_address() {
    let (mut registry, asked) = world(Reason::NotReady, 0);
    registry.frames(PID, &[START | LOOP, INTERPRETED | 0x1000, DETAIL], SECOND, &mut Vec::new());
    let before = asked.load(Ordering::Relaxed);
    registry.apply(&LifeEvent { time: 2 * SECOND, pid: PID, life: Life::Mapped(map(START)) });
    assert!(registry.publish(PID, 2 * SECOND).is_some());
    assert_eq!(asked.load(Ordering::Relaxed), before + 1);
    registry.frames(PID, &[START | LOOP, INTERPRETED | 0x1000, DETAIL], 3 * SECOND, &mut Vec::new());
    assert_eq!(registry.stats().interpreters.functions, 2);
}

/// Only the last one is still mapped, according to the process; it gets one of the four slots of a
/// process.
#[test]
fn attaches_to_runtime_after_many_reloads() {
    let places: Vec<u64> = (0..40).map(|number| START + number * 0x1000).collect();
    let (mut registry, _) = untold(places[39], Reason::NotReady, 0);
    registry.apply(&LifeEvent { time: 0, pid: PID, life: Life::Executed });
    for (number, place) in (1..).zip(places) {
        let time = number * 5 * SECOND;
        registry.apply(&LifeEvent { time, pid: PID, life: Life::Mapped(map(place)) });
        assert!(registry.publish(PID, time).is_some());
    }
    assert_eq!(registry.stats().interpreters.attached, 5);
}

/// As for a plug-in with an interpreter that is unloaded and loaded again.
#[test]
fn attaches_again_to_runtime_reloaded_at_other_address() {
    const ELSEWHERE: u64 = 0x7000_0000;
    let (mut registry, asked) = world(Reason::NotReady, 0);
    registry.frames(PID, &[START | LOOP, INTERPRETED | 0x1000, DETAIL], SECOND, &mut Vec::new());
    let before = asked.load(Ordering::Relaxed);
    registry.apply(&LifeEvent { time: 2 * SECOND, pid: PID, life: Life::Mapped(map(ELSEWHERE)) });
    assert!(registry.publish(PID, 2 * SECOND).is_some());
    tick(&mut registry, 3..4);
    assert!(asked.load(Ordering::Relaxed) > before);
    assert_eq!(registry.stats().interpreters.attached, 2);
}

/// Publishes a process with memory without a file at a time. Returns the kind of that mapping, and
/// the budget of raw samples.
fn publish_anonymous(registry: &mut Registry, now: u64) -> (u16, u32) {
    let process = registry.publish(PID, now).unwrap();
    let word = process.mappings * (UNIT / 4) as u32;
    let words = registry.tables().piece(word).unwrap();
    let mapping = size_of::<Mapping>() / 4;
    // The second one.
    let kind = words[mapping + core::mem::offset_of!(Mapping, kind) / 4];
    (kind as u16, process.raw_budget)
}

/// Returns a registry with a runtime that isn't ready, and memory without a file.
fn with_anonymous(owns_memory: bool) -> Registry {
    let slow = Slow { asked: Arc::default(), answers: u32::MAX, first: Reason::NotReady, owns_memory };
    with_maps(slow, vec![map(START), anonymous()])
}

fn anonymous() -> MapEvent {
    MapEvent::new(0x80_0000..0x80_1000, 0, FileId::Anonymous, "//anon")
}

/// A machine that counts how often files of mappings are looked for.
struct Counting {
    system: FakeSystem,
    openers: Arc<AtomicU32>,
}

impl System for Counting {
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
        self.openers.fetch_add(1, Ordering::Relaxed);
        self.system.opener(pid, mapping)
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.system.read(pid, address, buffer)
    }
}

/// A compiler changes the protection of its memory with each function, some thousand times a
/// second.
#[test]
fn memory_that_is_made_executable_again_costs_no_search_for_a_file() {
    let openers = Arc::<AtomicU32>::default();
    let system = Counting { system: system_with(vec![map(START), anonymous()]), openers: openers.clone() };
    let slow = Slow { asked: Arc::default(), answers: 0, first: Reason::NotReady, owns_memory: true };
    let mut registry = on_system(slow, Box::new(system));
    assert!(registry.publish(PID, 0).is_some());
    assert_eq!(registry.stats().interpreters.attached, 1);
    let before = openers.load(Ordering::Relaxed);
    assert!(before > 0);
    for time in 1..100 {
        registry.apply(&LifeEvent { time, pid: PID, life: Life::Mapped(anonymous()) });
    }
    assert_eq!(openers.load(Ordering::Relaxed), before);
}

/// Events of a process were lost, and its mappings read again: its files are known although it isn't published again yet.
#[test]
fn files_are_known_as_soon_as_mappings_were_read_again() {
    let slow = Slow { asked: Arc::default(), answers: u32::MAX, first: Reason::NotReady, owns_memory: false };
    let mut registry = with_maps(slow, vec![map(START), anonymous()]);
    registry.apply(&LifeEvent { time: 1, pid: PID, life: Life::Executed });
    registry.apply(&LifeEvent { time: 2, pid: PID, life: Life::Mapped(map(START)) });
    assert!(registry.publish(PID, 3).is_some());
    registry.apply(&LifeEvent { time: SECOND, pid: 0, life: Life::Lost { count: 1 } });
    registry.reread_mappings(PID, 2 * SECOND);
    let mut frames = Vec::new();
    registry.frames(PID, &[START + 0x10], 2 * SECOND, &mut frames);
    assert!(matches!(frames[..], [Frame::Native { .. }]), "{frames:?}");
}

#[test]
fn memory_without_file_is_awaited_by_runtimes_that_will_own_it() {
    assert_eq!(publish_anonymous(&mut with_anonymous(false), SECOND), (kind::BARE, 16));
    assert_eq!(publish_anonymous(&mut with_anonymous(true), SECOND), (kind::AWAITED, 1024));
}

#[test]
fn memory_is_awaited_for_a_bounded_number_of_samples() {
    let mut registry = with_anonymous(true);
    let kinds = (0..2000).map(|number| publish_anonymous(&mut registry, SECOND + number * 1000).0);
    let kinds: Vec<u16> = kinds.collect();
    let awaited = kinds.iter().filter(|&&kind| kind == kind::AWAITED).count();
    assert!((1000..=1024).contains(&awaited), "{awaited}");
    assert_eq!(kinds.last(), Some(&kind::BARE));
}

#[test]
fn memory_is_awaited_for_a_bounded_time() {
    let mut registry = with_anonymous(true);
    let kinds = [1, 5, 10, 12, 20].map(|second| publish_anonymous(&mut registry, second * SECOND).0);
    let [bare, awaited] = [kind::BARE, kind::AWAITED];
    assert_eq!(kinds, [awaited, awaited, awaited, bare, bare]);
}

/// User space may be late while the program maps its libraries.
#[test]
fn a_process_that_has_just_begun_is_granted_more_raw_samples() {
    let mut registry = with_anonymous(false);
    registry.apply(&LifeEvent { time: SECOND, pid: PID, life: Life::Executed });
    let budgets =
        [1000, 1500, 1999, 2000, 9000].map(|ms| publish_anonymous(&mut registry, ms * SECOND / 1000).1);
    assert_eq!(budgets, [256, 256, 256, 16, 16]);
}

/// A language with a loop in every file, of which some builds are refused.
struct Linked {
    name: &'static str,
    loops: [Range<u64>; 1],
    is_known: bool,
}

impl Language for Linked {
    fn name(&self) -> &'static str {
        self.name
    }

    fn find(&self, _: &Elf) -> Option<Box<dyn Runtime>> {
        Some(Box::new(Linked { loops: self.loops.clone(), ..*self }))
    }
}

impl Runtime for Linked {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, _: &Target<'_>) -> Result<Attachment, Reason> {
        let walker = FrameWalker::list(FramePath::from_address(0x1000, &[])).build().unwrap();
        if self.is_known { Ok(Attachment::new(walker, Named)) } else { Err(Reason::Unsupported) }
    }
}

/// Returns a registry with a process whose file holds such runtimes, with loops at offsets of the
/// mapped code.
fn linked(languages: &[(&'static str, u64, bool)]) -> Registry {
    let elf = Elf::open(std::fs::File::open("/proc/self/exe").unwrap()).unwrap();
    let start = elf.code_address(code_offset()).unwrap();
    let file = std::fs::read("/proc/self/exe").unwrap();
    let system = FakeSystem::default().process(PID, "/bin/slow", vec![map(START)]).file("/bin/slow", &file);
    let mut registry = Registry::new(Box::new(system), Box::new(MemoryTables::default()), None, 1 << 20);
    let languages = languages.iter().map(|&(name, at, is_known)| {
        let range = start + at..start + at + 0x100;
        Box::new(Linked { name, loops: [range], is_known }) as Box<dyn Language>
    });
    registry.add_languages(languages.collect());
    registry
}

/// Publishes the process. Returns start and end of its mappings behind the start of the file, and
/// their interpreters.
fn loops(registry: &mut Registry) -> Vec<(u64, u64, u32)> {
    let process = registry.publish(PID, 0).unwrap();
    let words = registry.tables().piece(process.mappings * (UNIT / 4) as u32).unwrap();
    let mappings = words.chunks(size_of::<Mapping>() / 4).take(process.count as usize);
    let address = |words: &[u32]| u64::from(words[0]) | u64::from(words[1]) << 32;
    mappings.map(|words| (address(words) - START, address(&words[2..]) - START, words[7] >> 16)).collect()
}

#[test]
fn a_file_may_hold_several_runtimes() {
    let mut registry = linked(&[("one", 0x100, true)]);
    assert_eq!(loops(&mut registry), [(0, 0x1000, 1)]);
    let mut registry = linked(&[("one", 0x100, true), ("two", 0x800, true)]);
    let parts = [(0, 0x100, 0), (0x100, 0x200, 1), (0x200, 0x800, 0), (0x800, 0x900, 2), (0x900, 0x1000, 0)];
    assert_eq!(loops(&mut registry), parts);
    assert_eq!(registry.stats().interpreters.attached, 2);
}

#[test]
fn refused_builds_are_counted_by_language_and_reason() {
    let mut registry = linked(&[("one", 0x100, true), ("two", 0x800, false)]);
    loops(&mut registry);
    let interpreters = registry.stats().interpreters;
    assert_eq!(interpreters.refused, 1);
    assert_eq!(interpreters.refusals, [(("two", Reason::Unsupported), 1)].into());
}
