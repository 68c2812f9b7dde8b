//! Any bytes as `.eh_frame`, for either instruction set: a table that keeps its promises, whatever they are.
#![no_main]

#[path = "../../tests/elf/mod.rs"]
mod elf;

use ebpf_profiler_unwind::{Table, validate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for machine in [elf::X86_64, elf::AARCH64] {
        for file in [elf::with_section(machine, ".eh_frame", data), elf::with_program_header(machine, data)] {
            let table = Table::of(&elf::open(file)).expect("the file can be read");
            assert_eq!(validate(table.image()), Ok(()));
            assert!(table.image().len() <= 1 << 20 | data.len() * 8);
            for row in table.rows() {
                assert_eq!(table.rule(row.address), Some(row.rule).filter(|rule| rule.is_described()));
            }
        }
    }
});
