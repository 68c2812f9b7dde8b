//! Any bytes as a core dump, which is its own library, too: stacks are walked, and end.
#![no_main]

use std::io::Cursor;

use ebpf_profiler_core::elf::ReadAt;
use ebpf_profiler_unwind::Walk;
use ebpf_profiler_unwind::core_dump::{CoreDump, Search};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(dump) = CoreDump::open(Cursor::new(data.to_vec())) else { return };
    let open = |_: &_| Ok(Box::new(Cursor::new(data.to_vec())) as Box<dyn ReadAt>);
    let loaded = dump.load(&Search::default(), open);
    for thread in dump.threads().iter().take(4) {
        let mut walk = Walk::new(loaded.modules(), &thread.registers, loaded.memory());
        for frame in walk.by_ref() {
            assert!(loaded.file_of(&frame).is_none_or(|file| file < loaded.files().len()));
        }
        assert!(walk.stop().is_some());
    }
});
