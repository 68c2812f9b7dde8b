//! Any bytes as an ELF file.
#![no_main]

use ebpf_profiler_unwind::{Table, validate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(table) = Table::from_elf(data) {
        assert_eq!(validate(table.image()), Ok(()));
    }
});
