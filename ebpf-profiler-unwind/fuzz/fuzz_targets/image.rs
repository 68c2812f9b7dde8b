//! Any bytes as a table: it is refused, or it can be read.
#![no_main]

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_unwind::Table;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(table) = Table::from_image(data.to_vec(), Arch::Aarch64) {
        for row in table.rows() {
            assert_eq!(table.rule(row.address), Some(row.rule).filter(|rule| rule.is_described()));
            let _ = row.rule.to_string();
        }
    }
});
