//! Any bytes as a file: everything that can be asked of its headers.
#![no_main]

use std::io::Cursor;

use ebpf_profiler_core::elf::Elf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(elf) = Elf::open(Cursor::new(data.to_vec())) else { return };
    let _ = (elf.build_id(), elf.entry(), elf.kind());
    for segment in elf.segments() {
        let _ = elf.file_offset(segment.address, segment.file_size);
        let _ = elf.code_address(segment.offset);
        let _ = elf.read(segment.address, &mut [0; 16]);
    }
    for section in elf.sections() {
        let _ = elf.data(section);
    }
});
