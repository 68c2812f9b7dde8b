//! The arena, through which mappings and unwind tables are published to the kernel side.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::ops::Range;
use std::sync::{Arc, Mutex};

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::internal::registry::Registry;
use ebpf_profiler_core::internal::sample::{FileId, Life, LifeEvent, MapEvent, TickRecord};
use ebpf_profiler_core::internal::tables::{Full, MemoryTables, Tables};
use ebpf_profiler_core::internal::testing::{FakeSystem, FakeTick};
use ebpf_profiler_core::trace::Frame;
use ebpf_profiler_core::unwind::Compiled;
use ebpf_programs::abi::mapping::Process;

const SECOND: u64 = 1_000_000_000;
const ARENA: u64 = 1 << 20;

/// Tables that record the ranges last reported as unused.
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

    fn piece(&self, _: u32) -> Option<&[u32]> {
        None
    }

    fn unused(&mut self, bytes: Range<u64>) {
        self.0.lock().unwrap().1.push(bytes);
    }

    fn set_process(&mut self, _: u32, _: &Process) -> Result<(), Full> {
        Ok(())
    }

    fn replace_process(&mut self, _: u32, _: &Process) {}

    fn remove_process(&mut self, _: u32) {}
}

/// Tables that log all calls.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, said: impl Into<String>) {
        self.0.lock().unwrap().push(said.into());
    }
}

impl Tables for Log {
    fn write(&mut self, _: u64, bytes: &[u8]) -> Result<(), Full> {
        self.add(if bytes == IMAGE { "table" } else { "mapping" });
        Ok(())
    }

    fn renew(&mut self) -> Result<(), Full> {
        self.add("renew");
        Ok(())
    }

    fn piece(&self, _: u32) -> Option<&[u32]> {
        None
    }

    fn set_process(&mut self, pid: u32, _: &Process) -> Result<(), Full> {
        self.add(format!("process {pid}"));
        Ok(())
    }

    fn replace_process(&mut self, _: u32, _: &Process) {}

    fn remove_process(&mut self, _: u32) {}
}

const IMAGE: [u8; 64] = [7; 64];

#[test]
fn invalidates_cached_rules_before_it_publishes_a_table() {
    let program = std::env::current_exe().unwrap();
    let path = program.to_str().unwrap();
    let file = FileId::Inode { device: (8, 1), inode: 3 };
    let map = MapEvent::new(0x1000..0x9000, code_offset(), file, path);
    let system = FakeSystem::default().process(7, path, vec![map]).file(path, &std::fs::read(path).unwrap());
    let log = Log::default();
    let compiler = |_: &Elf| Ok(Compiled::new(IMAGE.into()));
    let mut registry =
        Registry::new(Box::new(system), Box::new(log.clone()), Some(Box::new(compiler)), ARENA);
    registry.publish(7, 0).unwrap();
    assert!(registry.build_table(7, 0x2000, 0), "no table was built");
    registry.publish(7, 0).unwrap();
    let said = log.0.lock().unwrap();
    let built = said.iter().position(|said| said == "table").unwrap();
    assert_eq!(said[built + 1], "renew", "{said:?}");
    assert!(said[built + 2..].contains(&"process 7".to_owned()), "{said:?}");
}

/// Returns the offset of the code in this program.
fn code_offset() -> u64 {
    let elf = Elf::open(std::fs::File::open("/proc/self/exe").unwrap()).unwrap();
    elf.segments().iter().find(|segment| segment.is_code()).unwrap().offset & !0xfff
}

/// Programs carry code behind their segments that is not theirs, and archives begin with one.
#[test]
fn bytes_outside_of_code_segments_are_of_no_module() {
    let program = std::env::current_exe().unwrap();
    let path = program.to_str().unwrap();
    let bytes = std::fs::read(path).unwrap();
    let file = FileId::Inode { device: (8, 1), inode: 3 };
    let behind = (bytes.len() as u64).next_multiple_of(0x1000);
    let offsets = [code_offset(), 0, behind];
    let maps = offsets.iter().zip(1..);
    let maps = maps.map(|(&offset, number)| {
        let start = number * 0x10000;
        MapEvent::new(start..start + 0x1000, offset, file.clone(), path)
    });
    let system = FakeSystem::default().process(7, path, maps.collect()).file(path, &bytes);
    let mut registry = Registry::new(Box::new(system), Box::new(Kernel::default()), None, ARENA);
    registry.publish(7, 0).unwrap();
    let mut frames = Vec::new();
    registry.frames(7, &[0x10800, 0x20800, 0x30800], 0, &mut frames);
    assert!(matches!(frames[0], Frame::Native { .. }), "{frames:?}");
    for (frame, at) in frames[1..].iter().zip([0x20800, 0x30800]) {
        assert!(matches!(frame, Frame::Anonymous { address, .. } if *address == at), "{frame:?}");
    }
}

#[test]
fn frees_memory_of_exited_process() {
    let map = |number: u64| {
        let file = FileId::Inode { device: (8, 1), inode: number };
        let path = format!("/lib/{number}.so");
        MapEvent::new(number << 12..(number + 1) << 12, 0, file, path)
    };
    let kernel = Kernel::default();
    // Process 7 exists by its events only: after its exit the system has no data on it.
    let system = FakeSystem::default().process(8, "/bin/b", vec![map(2)]);
    let mut registry = Registry::new(Box::new(system), Box::new(kernel.clone()), None, ARENA);
    registry.apply(&LifeEvent { time: 0, pid: 7, life: Life::Mapped(map(1)) });
    let first = registry.publish(7, 0).unwrap();
    let second = registry.publish(8, 0).unwrap();
    registry.free_unused(0);
    let rest = kernel.unused().remove(0);
    assert!(first.mappings < second.mappings && rest.end == ARENA);

    registry.apply(&LifeEvent { time: SECOND, pid: 7, life: Life::Exited });
    registry.expire(3 * SECOND);
    (0..3).for_each(|_| registry.publish_changed(3 * SECOND));
    registry.free_unused(3 * SECOND);
    assert_eq!(kernel.unused().remove(0), rest, "freed while a walk may still read it");
    registry.free_unused(5 * SECOND);
    assert_eq!(kernel.unused(), [0..rest.start / 2, rest]);
}

#[test]
fn keeps_process_whose_other_threads_run() {
    let file = FileId::Inode { device: (8, 1), inode: 1 };
    let map = MapEvent::new(0x1000..0x2000, 0, file, "/bin/a");
    let system = FakeSystem::default().process(7, "/bin/a", vec![map]);
    let mut registry = Registry::new(Box::new(system), Box::new(Kernel::default()), None, ARENA);
    registry.set_filter(&[7].into());
    registry.publish(7, 0).unwrap();
    registry.apply(&LifeEvent { time: SECOND, pid: 7, life: Life::Exited });
    let tick = |time| {
        let record = FakeTick::walked(time, 7, "a", &[0x1800]).bytes();
        record.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect::<Vec<_>>()
    };
    for seconds in 3..9 {
        registry.expire(seconds * SECOND);
        assert!(
            registry.check_walk(&TickRecord::decode(&tick(seconds * SECOND)).unwrap()).is_ok()
                && registry.passes_filter(7),
            "after {seconds} s"
        );
    }
}
