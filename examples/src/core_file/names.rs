//! Names of native frames.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebpf_profiler_core::elf::ReadAt;
use ebpf_profiler_core::internal::files;
use ebpf_profiler_core::process::{Module, Opener};
use ebpf_profiler_core::symbol::{Symbol, SymbolOptions, Symbolizer, Symbols};
use ebpf_profiler_unwind::core_dump::{File, Loaded, Origin};

use super::{Function, Stack};

/// Names the native frames of all stacks, a file at a time.
pub(super) fn name(loaded: &Loaded, stacks: &mut [Stack]) {
    let mut addresses: BTreeMap<usize, BTreeMap<u64, Vec<Function>>> = BTreeMap::new();
    for native in stacks.iter().flat_map(|stack| &stack.calls).filter_map(|call| call.frame.native()) {
        if let Some(file) = loaded.file_of(native) {
            addresses.entry(file).or_default().insert(native.file_address, Vec::new());
        }
    }
    let mut symbols = Symbols::new(SymbolOptions::default());
    for (&file, names) in &mut addresses {
        of_file(&mut symbols, &loaded.files()[file], names);
    }
    for call in stacks.iter_mut().flat_map(|stack| &mut stack.calls) {
        let Some(native) = call.frame.native() else { continue };
        let names = loaded.file_of(native).and_then(|file| addresses.get(&file));
        call.functions = names.and_then(|names| names.get(&native.file_address)).cloned().unwrap_or_default();
    }
}

fn of_file(symbols: &mut Symbols, file: &File, names: &mut BTreeMap<u64, Vec<Function>>) {
    let Some(opener) = opener(file) else { return };
    let path = match &file.origin {
        Origin::Path(path) | Origin::Unproved(path) => path.to_string_lossy().into(),
        _ => file.path.clone(),
    };
    let mut module = Module::new(path);
    (module.build_id, module.opener) = (file.build_id.clone(), Some(opener));
    let addresses: Vec<u64> = names.keys().copied().collect();
    symbols.native(&module, &addresses, &mut |number, functions| {
        let named = |symbol: &Symbol| Function { name: symbol.function.to_string(), place: String::new() };
        names.insert(addresses[number], functions.iter().map(named).collect());
    });
}

/// Returns an opener of the file, or of its image in the dump.
pub(super) fn opener(file: &File) -> Option<Arc<dyn Opener>> {
    match &file.origin {
        Origin::Path(path) | Origin::Unproved(path) => {
            let path = path.clone();
            Some(Arc::new(move || Ok(Box::new(files::open(&path)?) as Box<dyn ReadAt>)))
        }
        Origin::Memory => {
            let image = file.image().clone();
            Some(Arc::new(move || Ok(Box::new(image.clone()) as Box<dyn ReadAt>)))
        }
        _ => None,
    }
}
