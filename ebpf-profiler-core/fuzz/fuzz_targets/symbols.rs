//! Any bytes as a file: its code is named, or it isn't.
#![no_main]

use std::io::Cursor;
use std::sync::Arc;

use ebpf_profiler_core::elf::{EXECUTABLE, Elf, ReadAt};
use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::symbol::{SymbolOptions, Symbolizer, Symbols};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let bytes: Arc<[u8]> = data.into();
    let Ok(elf) = Elf::open(Cursor::new(bytes.clone())) else { return };
    let code = elf.sections().iter().filter(|section| section.flags & EXECUTABLE != 0);
    let mut addresses: Vec<u64> = code
        .flat_map(|s| (0..s.size.min(4096)).step_by(13).map(|at| s.address.wrapping_add(at)))
        .take(4096)
        .collect();
    addresses.sort_unstable();
    let mut module = Module::new("/fuzzed");
    module.opener = Some(Arc::new(move || Ok(Box::new(Cursor::new(bytes.clone())) as Box<dyn ReadAt>)));
    let mut options = SymbolOptions::default();
    options.debug_files = false;
    Symbols::new(options).native(&module, &addresses, &mut |number, _| assert!(number < addresses.len()));
});
