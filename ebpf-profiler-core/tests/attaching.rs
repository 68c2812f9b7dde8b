//! Attach attempts before the dynamic loader has finished, and after the runtime has changed.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::internal::registry::Registry;
use ebpf_profiler_core::internal::sample::{FileId, Life, LifeEvent, MapEvent};
use ebpf_profiler_core::internal::tables::MemoryTables;
use ebpf_profiler_core::internal::testing::FakeSystem;
use ebpf_profiler_core::language::{
    Attached, Attachment, FramePath, FrameWalker, Function, Language, Memory, Reason, Runtime, Target,
};
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
}

impl Language for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn find(&self, _: &Elf) -> Option<Box<dyn Runtime>> {
        let Slow { ref asked, answers, first } = *self;
        Some(Box::new(Slow { asked: asked.clone(), answers, first }))
    }
}

impl Runtime for Slow {
    fn loops(&self) -> &[Range<u64>] {
        &[]
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

/// Returns a registry with a published process with such a runtime, and the number of attach attempts.
fn world(first: Reason, answers: u32) -> (Registry, Arc<AtomicU32>) {
    let (mut registry, asked) = untold(START, first, answers);
    assert!(registry.publish(PID, 0).is_some());
    (registry, asked)
}

/// Returns the same before the process is published; its file is mapped at `place`.
fn untold(place: u64, first: Reason, answers: u32) -> (Registry, Arc<AtomicU32>) {
    let file = std::fs::read("/proc/self/exe").unwrap();
    let system = FakeSystem::default().process(PID, "/bin/slow", vec![map(place)]).file("/bin/slow", &file);
    let mut registry = Registry::new(Box::new(system), Box::new(MemoryTables::default()), None, 1 << 20);
    let asked = Arc::new(AtomicU32::new(0));
    registry.add_languages(vec![Box::new(Slow { asked: asked.clone(), answers, first })]);
    (registry, asked)
}

/// Returns a mapping of the file at `start`.
fn map(start: u64) -> MapEvent {
    let file = FileId::Inode { device: (8, 1), inode: 1 };
    MapEvent::new(start..start + 0x1000, 0, file, "/bin/slow")
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

/// Unmapping is not reported. A second mapping of a file at the same address implies that it was unmapped in between.
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

/// Only the last one is still mapped, according to the process; it gets one of the four slots of a process.
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
