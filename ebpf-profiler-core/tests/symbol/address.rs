//! What we and others say about addresses, in one form.

use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::symbol::{Symbol, SymbolOptions, SymbolStats, Symbolizer, Symbols};

/// A function with its place: linker's name, file, line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: u32,
}

/// What we say about each address; nothing where there is no name.
pub(crate) fn ours(
    module: &Module,
    addresses: &[u64],
    options: SymbolOptions,
) -> (Vec<Vec<Symbol>>, SymbolStats) {
    let mut symbols = Symbols::new(options);
    let mut found = vec![Vec::new(); addresses.len()];
    symbols.native(module, addresses, &mut |number, functions| found[number] = functions.to_vec());
    (found, symbols.stats())
}

/// The name as the linker knows it.
pub(crate) fn linker_name(symbol: &Symbol) -> &str {
    if symbol.system_name.is_empty() { &symbol.function } else { &symbol.system_name }
}

impl From<&Symbol> for Function {
    fn from(symbol: &Symbol) -> Function {
        Function { name: linker_name(symbol).into(), file: symbol.file.to_string(), line: symbol.line }
    }
}

/// Fails if answers differ, and shows the first.
pub(crate) fn assert_same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    addresses: &[u64],
    ours: &[T],
    theirs: &[T],
) {
    assert_eq!(ours.len(), theirs.len(), "{what}: answers");
    let rows = addresses.iter().zip(ours).zip(theirs);
    let differing: Vec<_> = rows.filter(|((_, ours), theirs)| ours != theirs).collect();
    for ((address, ours), theirs) in differing.iter().take(4) {
        println!("{address:#x}\n  ours   {ours:?}\n  theirs {theirs:?}");
    }
    assert!(differing.is_empty(), "{what}: {} of {} addresses differ", differing.len(), addresses.len());
}
