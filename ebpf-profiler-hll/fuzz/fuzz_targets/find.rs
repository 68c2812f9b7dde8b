//! Arbitrary bytes as a file and as the memory of a process that maps it: find, attach and name must not panic.
#![no_main]

use std::io::Cursor;
use std::sync::Arc;

use ebpf_profiler_core::process::LoadBias;
use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::language::{LoadedFile, Target, Unreadable};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let bytes: Arc<[u8]> = data.into();
    let Ok(elf) = Elf::open(Cursor::new(bytes.clone())) else { return };
    let memory = |address: u64, buffer: &mut [u8]| {
        let at = usize::try_from(address).map_err(|_| Unreadable)?;
        buffer.copy_from_slice(data.get(at..).and_then(|rest| rest.get(..buffer.len())).ok_or(Unreadable)?);
        Ok(())
    };
    let opener = Arc::new(move || Ok(Box::new(Cursor::new(bytes.clone())) as Box<dyn ReadAt>));
    let file = LoadedFile::new("/fuzzed", LoadBias::ZERO, opener);
    for language in ebpf_profiler_hll::all() {
        let Some(runtime) = language.find(&elf) else { continue };
        let target = Target::new(&memory, LoadBias::ZERO, vec![file.clone()]);
        if let Ok(mut attachment) = runtime.attach(&target) {
            let _ = attachment.names().function(0x1000, 0, &memory);
        }
    }
});
