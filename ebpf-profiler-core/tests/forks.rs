//! State published to the kernel maps for processes that fork.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::sync::{Arc, Mutex};

use ebpf_profiler_core::internal::registry::Registry;
use ebpf_profiler_core::internal::sample::{FileId, Life, LifeEvent, MapEvent, TickRecord};
use ebpf_profiler_core::internal::tables::{Full, MemoryTables, Tables};
use ebpf_profiler_core::internal::testing::{FakeSystem, FakeTick};
use ebpf_profiler_core::process::Pids;
use ebpf_profiler_core::trace::Stop;
use ebpf_programs::abi::mapping::{Process, filter};

const SECOND: u64 = 1_000_000_000;
const PARENT: u32 = 7;
const CHILD: u32 = 8;

/// Tables that the test can read and change, as the kernel does.
#[derive(Clone, Default)]
struct Kernel(Arc<Mutex<MemoryTables>>);

impl Kernel {
    fn process(&self, pid: u32) -> Option<Process> {
        self.0.lock().unwrap().process(pid).copied()
    }

    /// Copies the parent's state to the child, as the tracepoint does at a fork.
    fn fork(&mut self) {
        if let Some(process) = self.process(PARENT) {
            self.set_process(CHILD, &process).unwrap();
        }
    }
}

impl Tables for Kernel {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Full> {
        self.0.lock().unwrap().write(at, bytes)
    }

    fn piece(&self, _: u32) -> Option<&[u32]> {
        None
    }

    fn set_process(&mut self, pid: u32, process: &Process) -> Result<(), Full> {
        self.0.lock().unwrap().set_process(pid, process)
    }

    fn replace_process(&mut self, pid: u32, process: &Process) {
        self.0.lock().unwrap().replace_process(pid, process);
    }

    fn remove_process(&mut self, pid: u32) {
        self.0.lock().unwrap().remove_process(pid);
    }
}

fn map(number: u64) -> MapEvent {
    let file = FileId::Inode { device: (8, 1), inode: number };
    let start = 0x1000 * number;
    MapEvent::new(start..start + 0x1000, 0, file, format!("/lib/{number}.so"))
}

/// Returns the result of the check of a walk by the state with this epoch through frames at
/// addresses.
fn walk_by(registry: &mut Registry, (pid, time): (u32, u64), epoch: u32, frames: &[u64]) -> Result<(), Stop> {
    let tick = FakeTick::walked(time, pid, "fork", frames).epoch(epoch).bytes();
    let words: Vec<u64> = tick.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    registry.check_walk(&TickRecord::decode(&words).unwrap())
}

/// Returns the result of the check of a walk by the present state.
fn walk(registry: &mut Registry, pid: u32, time: u64) -> Result<(), Stop> {
    walk_by(registry, (pid, time), 0, &[0x1800])
}

fn event(time: u64, pid: u32, life: Life) -> LifeEvent {
    LifeEvent { time, pid, life }
}

/// Returns a registry whose parent process has one published mapping.
fn world() -> (Kernel, Registry) {
    let kernel = Kernel::default();
    let system = FakeSystem::default().process(PARENT, "/bin/parent", vec![map(1)]);
    let mut registry = Registry::new(Box::new(system), Box::new(kernel.clone()), None, 1 << 20);
    assert!(registry.publish(PARENT, 0).is_some());
    (kernel, registry)
}

#[test]
fn child_has_mappings_of_its_parent() {
    let (mut kernel, mut registry) = world();
    kernel.fork();
    registry.apply(&event(1, CHILD, Life::Forked { parent: PARENT }));
    assert_eq!(walk(&mut registry, CHILD, 1), Ok(()));
    assert_eq!(kernel.process(CHILD), kernel.process(PARENT));
    registry.apply(&event(2, CHILD, Life::Mapped(map(2))));
    registry.publish(CHILD, 2);
    assert_eq!(kernel.process(CHILD).unwrap().count, 2);
    assert_eq!(kernel.process(PARENT).unwrap().count, 1, "the parent has a mapping of the child");
}

#[test]
fn keeps_mappings_shared_with_a_child() {
    let (mut kernel, mut registry) = world();
    kernel.fork();
    registry.apply(&event(1, CHILD, Life::Forked { parent: PARENT }));
    let shared = kernel.process(CHILD).unwrap().mappings;
    // The parent continues, and all memory that it frees is reusable.
    let mut places = Vec::new();
    for number in 2..20 {
        registry.apply(&event(number * 2 * SECOND, PARENT, Life::Mapped(map(number))));
        registry.publish(PARENT, number * 2 * SECOND);
        registry.publish_changed(number * 2 * SECOND);
        places.push(kernel.process(PARENT).unwrap().mappings);
    }
    assert!(!places.contains(&shared), "reused memory that the child needs");
    assert_eq!(kernel.process(CHILD).unwrap().mappings, shared);
    // The child's exec frees it.
    registry.apply(&event(50 * SECOND, CHILD, Life::Executed));
    assert_eq!(kernel.process(CHILD), None);
    for number in 30..50 {
        registry.apply(&event(number * 2 * SECOND, PARENT, Life::Mapped(map(number))));
        registry.publish(PARENT, number * 2 * SECOND);
        registry.publish_changed(number * 2 * SECOND);
        places.push(kernel.process(PARENT).unwrap().mappings);
    }
    assert!(places.contains(&shared), "the memory is not freed");
}

/// The parent's mapping event arrives after the kernel side has copied the parent's state.
#[test]
fn publishes_missing_mappings_of_a_child() {
    let (mut kernel, mut registry) = world();
    kernel.fork();
    registry.apply(&event(1, PARENT, Life::Mapped(map(2))));
    registry.publish(PARENT, 1);
    assert_ne!(kernel.process(CHILD), kernel.process(PARENT));
    registry.apply(&event(2, CHILD, Life::Forked { parent: PARENT }));
    assert_eq!(kernel.process(CHILD), kernel.process(PARENT));
}

#[test]
fn does_not_publish_an_ended_child() {
    let (kernel, mut registry) = world();
    registry.apply(&event(1, CHILD, Life::Forked { parent: PARENT }));
    assert_eq!(kernel.process(CHILD), None, "published although it ended or executed another program");
    assert_eq!(walk(&mut registry, CHILD, 1), Ok(()), "its ticks were unwound by its parent's mappings");
}

#[test]
fn walks_hold_after_lost_events_if_the_mappings_are_the_same() {
    let (kernel, mut registry) = world();
    registry.apply(&event(SECOND, 0, Life::Lost { count: 1 }));
    assert_eq!(walk(&mut registry, PARENT, 2 * SECOND), Ok(()), "its mappings were read again");
    assert!(kernel.process(PARENT).is_some());
    registry.apply(&event(3 * SECOND, PARENT, Life::Executed));
    assert_eq!(
        walk(&mut registry, PARENT, 3 * SECOND),
        Err(Stop::Exec),
        "it was walked through what it no longer is"
    );
    assert_eq!(kernel.process(PARENT), None);
}

#[test]
fn walks_are_dropped_after_lost_events_if_the_mappings_are_others() {
    let kernel = Kernel::default();
    let system = FakeSystem::default().process(PARENT, "/bin/parent", vec![map(1), map(2)]);
    let mut registry = Registry::new(Box::new(system), Box::new(kernel.clone()), None, 1 << 20);
    registry.apply(&event(1, PARENT, Life::Executed));
    registry.apply(&event(2, PARENT, Life::Mapped(map(1))));
    registry.publish(PARENT, 3);
    registry.apply(&event(SECOND, 0, Life::Lost { count: 1 }));
    assert_eq!(walk(&mut registry, PARENT, 2 * SECOND), Err(Stop::UnknownProcess));
    registry.publish_changed(2 * SECOND);
    assert_eq!(kernel.process(PARENT).unwrap().count, 2);
    assert_eq!(walk(&mut registry, PARENT, 2 * SECOND), Ok(()));
}

#[test]
fn does_not_publish_child_of_unpublished_parent() {
    let (mut kernel, mut registry) = world();
    kernel.fork();
    registry.apply(&event(1, PARENT, Life::Executed));
    registry.apply(&event(2, CHILD, Life::Forked { parent: PARENT }));
    assert_eq!(kernel.process(CHILD), None);
    assert_eq!(walk(&mut registry, CHILD, 2), Err(Stop::UnknownProcess));
}

/// Returns a mapping of file `number` at the address of [`map(1)`](map).
fn replaced(number: u64) -> MapEvent {
    let file = FileId::Inode { device: (8, 1), inode: number };
    MapEvent::new(0x1000..0x2000, 0, file, "/lib/1.so")
}

#[test]
fn drops_walks_through_mappings_that_were_replaced() {
    let (kernel, mut registry) = world();
    registry.apply(&event(1, PARENT, Life::Mapped(map(2))));
    registry.publish(PARENT, 1);
    let epoch = kernel.process(PARENT).unwrap().epoch;
    registry.apply(&event(2, PARENT, Life::Mapped(replaced(9))));
    assert_eq!(walk_by(&mut registry, (PARENT, 3), epoch, &[0x2800]), Ok(()), "no frame in it");
    assert_eq!(walk_by(&mut registry, (PARENT, 3), epoch, &[0x2800, 0x1800]), Err(Stop::Outdated));
    registry.publish_changed(4);
    let renewed = kernel.process(PARENT).unwrap().epoch;
    assert_ne!(renewed, epoch);
    assert_eq!(walk_by(&mut registry, (PARENT, 5), renewed, &[0x1800]), Ok(()));
    assert_eq!(walk_by(&mut registry, (PARENT, 5), epoch, &[0x1800]), Err(Stop::Outdated), "read late");
    assert_eq!(walk_by(&mut registry, (PARENT, 5), epoch, &[0x2800]), Ok(()));
    assert_eq!(registry.stats().outdated_walks, 2);
}

#[test]
fn a_mapping_where_none_was_costs_no_walk() {
    let (kernel, mut registry) = world();
    let epoch = kernel.process(PARENT).unwrap().epoch;
    registry.apply(&event(1, PARENT, Life::Mapped(map(2))));
    assert_eq!(walk_by(&mut registry, (PARENT, 2), epoch, &[0x1800, 0x2800]), Ok(()));
    // The same file mapped once more at its place, as a part of memory that is made executable again.
    registry.apply(&event(3, PARENT, Life::Mapped(map(1))));
    assert_eq!(walk_by(&mut registry, (PARENT, 4), epoch, &[0x1800]), Ok(()));
    assert_eq!(registry.stats().outdated_walks, 0);
}

#[test]
fn drops_walks_by_states_of_others() {
    let (kernel, mut registry) = world();
    let of_parent = kernel.process(PARENT).unwrap().epoch;
    // The process that had the id before, or the program before an exec.
    registry.apply(&event(1, CHILD, Life::Executed));
    registry.apply(&event(1, CHILD, Life::Mapped(map(1))));
    registry.publish(CHILD, 2);
    let of_child = kernel.process(CHILD).unwrap().epoch;
    assert_eq!(walk_by(&mut registry, (CHILD, 3), of_child, &[0x1800]), Ok(()));
    assert_eq!(walk_by(&mut registry, (CHILD, 3), of_parent, &[0x1800]), Err(Stop::Outdated));
    // The kernel side has the right state again.
    assert_eq!(kernel.process(CHILD).unwrap().epoch, of_child);
}

#[test]
fn keeps_memory_of_states_that_children_inherited() {
    let (mut kernel, mut registry) = world();
    let inherited = kernel.process(PARENT).unwrap();
    kernel.fork();
    registry.apply(&event(1, PARENT, Life::Mapped(map(2))));
    registry.publish(PARENT, 1);
    // The fork's event is still to come, and the pipeline is behind: its seconds pass at once.
    for time in 2..40 {
        registry.apply(&event(time * SECOND, PARENT, Life::Mapped(map(time + 1))));
        registry.publish(PARENT, time * SECOND);
        assert_ne!(kernel.process(PARENT).unwrap().mappings, inherited.mappings, "the child walks there");
    }
    registry.apply(&event(40 * SECOND, CHILD, Life::Forked { parent: PARENT }));
    assert_eq!(kernel.process(CHILD), kernel.process(PARENT));
    let walked = walk_by(&mut registry, (CHILD, 40 * SECOND), inherited.epoch, &[0x1800]);
    assert_eq!(walked, Ok(()), "before the event");
}

#[test]
fn a_file_with_the_inode_of_another_is_another_file() {
    let of_generation = |generation| {
        let file = FileId::Inode { device: (8, 1), inode: 1 }.with_generation(generation);
        MapEvent::new(0x5000..0x6000, 0, file, "/lib/new.so")
    };
    let (kernel, mut registry) = world();
    registry.apply(&event(1, PARENT, Life::Mapped(of_generation(7))));
    registry.publish(PARENT, 1);
    let epoch = kernel.process(PARENT).unwrap().epoch;
    registry.apply(&event(2, PARENT, Life::Mapped(of_generation(7))));
    assert_eq!(walk_by(&mut registry, (PARENT, 3), epoch, &[0x5800]), Ok(()), "the same once more");
    registry.apply(&event(4, PARENT, Life::Mapped(of_generation(8))));
    assert_eq!(walk_by(&mut registry, (PARENT, 5), epoch, &[0x5800]), Err(Stop::Outdated));
}

#[test]
fn samples_of_dropped_processes_come_again_after_the_filter() {
    let (mut kernel, mut registry) = world();
    registry.set_filter(&[PARENT].into());
    // A process that has no other state: it is known by its samples alone.
    assert!(!registry.passes_filter(CHILD));
    assert!(kernel.process(CHILD).is_some_and(|process| process.filter == filter::DROP));
    registry.set_filter(&Pids::All);
    assert_eq!(kernel.process(CHILD), None, "its samples are dropped for ever");
    // One that executed is not removed again: it may be another by now.
    registry.set_filter(&[PARENT].into());
    assert!(!registry.passes_filter(CHILD));
    registry.apply(&event(1, CHILD, Life::Exited));
    kernel.fork();
    registry.set_filter(&Pids::All);
    assert_eq!(kernel.process(CHILD), kernel.process(PARENT));
}
