//! Symbols of V8 that it doesn't export, found in one pass: those of Node.js have 20 MB of names.

use ebpf_profiler_core::elf::{Elf, Symbol};

use super::builtins::SIZES;
use super::wasm::STATE;

/// Start of the names of builtins.
const BUILTIN: &[u8] = b"Builtins_";

/// Start of the name of the function that returns the address of the table of entry points.
const DISPATCH: &[u8] = b"_ZN2v88internal17ExternalReference25js_dispatch_table_addressE";

/// Maximum number of builtins; the latest version has 2,400.
const MAX: usize = 1 << 13;

/// Symbols of a file; none of one that is stripped.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// The builtins, with their names behind the prefix.
    pub(super) builtins: Vec<(Box<[u8]>, Symbol)>,
    /// The table of the sizes of bytecodes.
    pub(super) sizes: Option<Symbol>,
    /// Address of the function that returns that of the table of entry points.
    pub(super) dispatch: Option<u64>,
    /// Address of the pointer to the state of the engine of WebAssembly.
    pub(super) wasm_state: Option<u64>,
}

impl Symbols {
    /// Reads the symbol table of a file.
    pub(super) fn read(elf: &Elf) -> Symbols {
        let mut symbols = Symbols::default();
        let starts = [BUILTIN, SIZES.as_bytes(), DISPATCH].into_iter().chain(STATE);
        elf.for_each_symbol_with(&starts.collect::<Vec<_>>(), |name, symbol| symbols.add(name, symbol));
        symbols
    }

    fn add(&mut self, name: &[u8], symbol: Symbol) {
        if let Some(builtin) = name.strip_prefix(BUILTIN) {
            if self.builtins.len() < MAX {
                self.builtins.push((builtin.into(), symbol));
            }
        } else if name == SIZES.as_bytes() {
            self.sizes = Some(symbol);
        } else if name.starts_with(DISPATCH) {
            self.dispatch = Some(symbol.address);
        } else if STATE.contains(&name) {
            self.wasm_state = Some(symbol.address);
        }
    }
}
