//! The memory in which the kernel side finds what it is told.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::ops::Range;
use std::sync::{Arc, Mutex};

use ebpf_profiler_core::process::Registry;
use ebpf_profiler_core::sample::{FileId, Life, LifeEvent, MapEvent};
use ebpf_profiler_core::tables::{Full, MemoryTables, Tables};
use ebpf_profiler_core::testing::FakeSystem;
use ebpf_programs::abi::arena::Block;
use ebpf_programs::abi::mapping::Process;

const SECOND: u64 = 1_000_000_000;
const ARENA: u64 = 1 << 20;

/// Tables that tell the test what they were told lately to be without use.
#[derive(Clone, Default)]
struct Kernel(Arc<Mutex<(MemoryTables, Vec<Range<u64>>)>>);

impl Kernel {
    fn unused(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }
}

impl Tables for Kernel {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Full> {
        self.0.lock().unwrap().0.write(at, bytes)
    }

    fn block(&self, _: u32) -> Option<&Block> {
        None
    }

    fn unused(&mut self, bytes: Range<u64>) {
        self.0.lock().unwrap().1.push(bytes);
    }

    fn set_process(&mut self, _: u32, _: &Process) -> Result<(), Full> {
        Ok(())
    }

    fn correct_process(&mut self, _: u32, _: &Process) {}

    fn remove_process(&mut self, _: u32) {}
}

#[test]
fn memory_is_given_back_when_a_process_is_gone() {
    let map = |number: u64| {
        let file = FileId::Inode { device: (8, 1), inode: number };
        let path = format!("/lib/{number}.so").into();
        MapEvent { start: number << 12, end: (number + 1) << 12, offset: 0, file, path }
    };
    let kernel = Kernel::default();
    let system = FakeSystem::default().process(7, "/bin/a", vec![map(1)]).process(8, "/bin/b", vec![map(2)]);
    let mut registry = Registry::new(Box::new(system), Box::new(kernel.clone()), None, ARENA);
    let first = registry.tell(7, 0).unwrap();
    let second = registry.tell(8, 0).unwrap();
    registry.tidy(0);
    let rest = kernel.unused().remove(0);
    assert!(first.mappings < second.mappings && rest.end == ARENA);

    registry.apply(&LifeEvent { time: SECOND, pid: 7, life: Life::Exited });
    registry.expire(3 * SECOND);
    registry.tidy(3 * SECOND);
    assert_eq!(kernel.unused().remove(0), rest, "a walk may still look at it");
    registry.tidy(5 * SECOND);
    assert_eq!(kernel.unused(), [0..rest.start / 2, rest]);
}
