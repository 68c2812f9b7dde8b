//! Any bytes as Go's table.
#![no_main]

#[path = "../../tests/elf/mod.rs"]
mod elf;

use ebpf_profiler_unwind::{Table, validate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for machine in [elf::X86_64, elf::AARCH64] {
        let file = elf::with_section(machine, ".gopclntab", data);
        let table = Table::of(&elf::open(file)).expect("the file can be read");
        assert_eq!(validate(table.image()), Ok(()));
        assert!(table.image().len() <= 1 << 20 | data.len() * 8);
    }
});
