//! Any bytes as `.debug_frame`, as they are and compressed.
#![no_main]

#[path = "../../tests/elf/mod.rs"]
mod elf;

use ebpf_profiler_unwind::{Table, validate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for name in [".debug_frame", ".zdebug_frame"] {
        let file = elf::with_section(elf::X86_64, name, data);
        let table = Table::of(&elf::open(file)).expect("the file can be read");
        assert_eq!(validate(table.image()), Ok(()));
    }
});
