//! State published to the kernel maps for processes that fork.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::sync::{Arc, Mutex};

use ebpf_profiler_core::internal::registry::Registry;
use ebpf_profiler_core::internal::sample::{FileId, Life, LifeEvent, MapEvent};
use ebpf_profiler_core::internal::tables::{Full, MemoryTables, Tables};
use ebpf_profiler_core::internal::testing::FakeSystem;
use ebpf_profiler_core::trace::Stop;
use ebpf_programs::abi::mapping::Process;

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
    assert_eq!(registry.check_walk(CHILD, 1), Ok(()));
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
    assert_eq!(registry.check_walk(CHILD, 1), Ok(()), "its ticks were unwound by its parent's mappings");
}

#[test]
fn walks_hold_after_lost_events_if_the_mappings_are_the_same() {
    let (kernel, mut registry) = world();
    registry.apply(&event(SECOND, 0, Life::Lost { count: 1 }));
    assert_eq!(registry.check_walk(PARENT, 2 * SECOND), Ok(()), "its mappings were read again");
    assert!(kernel.process(PARENT).is_some());
    registry.apply(&event(3 * SECOND, PARENT, Life::Executed));
    assert_eq!(
        registry.check_walk(PARENT, 3 * SECOND),
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
    assert_eq!(registry.check_walk(PARENT, 2 * SECOND), Err(Stop::UnknownProcess));
    registry.publish_changed(2 * SECOND);
    assert_eq!(kernel.process(PARENT).unwrap().count, 2);
    assert_eq!(registry.check_walk(PARENT, 2 * SECOND), Ok(()));
}

#[test]
fn does_not_publish_child_of_unpublished_parent() {
    let (mut kernel, mut registry) = world();
    kernel.fork();
    registry.apply(&event(1, PARENT, Life::Executed));
    registry.apply(&event(2, CHILD, Life::Forked { parent: PARENT }));
    assert_eq!(kernel.process(CHILD), None);
    assert_eq!(registry.check_walk(CHILD, 2), Err(Stop::UnknownProcess));
}
