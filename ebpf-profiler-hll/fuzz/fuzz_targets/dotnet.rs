//! Finds .NET in a changed file, and attaches to a process whose memory repeats the input.
#![no_main]

use ebpf_profiler_core::process::LoadBias;
use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::language::{Language, Memory, Target, Unreadable};
use ebpf_profiler_hll::dotnet::Dotnet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(elf) = Elf::open(Box::new(std::io::Cursor::new(data.to_vec())) as Box<dyn ReadAt>) else { return };
    let Some(runtime) = Dotnet.find(&elf) else { return };
    let memory = |address: u64, buffer: &mut [u8]| {
        if data.is_empty() || address >> 47 != 0 {
            return Err(Unreadable);
        }
        for (index, byte) in (0..).zip(buffer) {
            *byte = data[(address.wrapping_add(index) % data.len() as u64) as usize];
        }
        Ok(())
    };
    let Ok(mut attachment) = runtime.attach(&Target::new(&memory, LoadBias::ZERO, Vec::new())) else { return };
    let memory: &dyn Memory = &memory;
    for address in [8, 1 << 20, 1 << 48 | 64, 2 << 48] {
        let _ = attachment.names().function(address, 0, memory);
    }
});
