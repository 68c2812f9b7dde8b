//! Arbitrary memory behind a code object; the first byte selects the version.
#![no_main]

use ebpf_profiler_core::process::LoadBias;
use ebpf_profiler_core::language::{Attachment, Language, Memory, Target, Unreadable};
use ebpf_profiler_hll::python::Python;
use libfuzzer_sys::fuzz_target;

#[path = "../../tests/fake/mod.rs"]
mod fake;

const VERSIONS: [(u8, u8); 9] = [(2, 7), (3, 6), (3, 7), (3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 14)];

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    let Some(mut attachment) = attach(VERSIONS[first as usize % VERSIONS.len()]) else { return };
    // Every address of the lower half is readable.
    let memory = |address: u64, buffer: &mut [u8]| {
        if rest.is_empty() || address >> 63 == 1 {
            return Err(Unreadable);
        }
        for (index, byte) in (0..).zip(buffer) {
            *byte = rest[(address.wrapping_add(index) % rest.len() as u64) as usize];
        }
        Ok(())
    };
    for at in [0, 8, 64] {
        let address = rest.len() as u64 * 8 + at;
        let read: &dyn Memory = &memory;
        let check = attachment.walker().check(address, |at| read.u64(at)).unwrap_or(0);
        if let Ok(function) = attachment.names().function(address, check, &memory) {
            assert!(function.name.len() <= 4100 && function.file.len() <= 4100);
        }
    }
});

/// Attaches to a process with a valid runtime.
fn attach(version: (u8, u8)) -> Option<Attachment> {
    let file = fake::file(version, &fake::debug_offsets());
    let runtime = Python.find(&fake::open(&file))?;
    let mut world = fake::World::default();
    world.put(fake::BIAS + fake::CODE_TYPE, &[0; 512]);
    world.put_word(fake::BIAS + fake::CODE_TYPE + 240, 0x1000);
    world.put(0x1000, &[0; 40]);
    world.put(fake::BIAS + fake::KEY - 12, &[1; 16]);
    world.put(fake::BIAS + fake::KEY, &[3, 0, 0, 0]);
    world.put_word(fake::BIAS + fake::INTERPRETERS, 0x2000);
    let target = Target::new(&world, LoadBias::new(fake::BIAS), fake::loaded(&file));
    runtime.attach(&target).ok()
}
