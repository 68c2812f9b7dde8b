//! Symbolizer results per address.

use ebpf_profiler_core::process::Module;
use ebpf_profiler_core::symbol::{Symbol, SymbolOptions, SymbolStats, Symbolizer, Symbols};

/// Returns our symbols at each address; empty without a name.
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

/// Returns the linker's name.
pub(crate) fn linker_name(symbol: &Symbol) -> &str {
    if symbol.system_name.is_empty() { &symbol.function } else { &symbol.system_name }
}
