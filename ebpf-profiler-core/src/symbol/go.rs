//! Names, files, lines and inlined calls of Go functions, by Go's function table.

use super::Symbol;
use super::demangle::Texts;
use super::options::SymbolOptions;
use crate::elf::Elf;
use crate::go::{Function, Pclntab};

/// Returns `true` if a file has Go's function table.
pub(super) fn is_in(elf: &Elf) -> bool {
    Pclntab::may_be_in(elf) && Pclntab::find(elf).is_ok_and(|table| table.is_some())
}

/// Names the addresses that have no name or no line yet.
pub(super) fn fill_in(
    elf: &Elf,
    addresses: &[u64],
    options: &SymbolOptions,
    texts: &mut Texts,
    functions: &mut [Vec<Symbol>],
) {
    let is_known = |functions: &[Symbol]| functions.iter().any(|function| function.line != 0);
    if functions.iter().all(|functions| is_known(functions)) {
        return;
    }
    let Some(table) = Pclntab::find(elf).ok().flatten() else { return };
    let table = if options.inlined { table.with_inlined(elf) } else { table };
    let mut left = STEPS.saturating_add(table.size());
    for (&address, functions) in addresses.iter().zip(functions).filter(|(_, known)| !is_known(known)) {
        let found = symbols(&table, address, options, texts, &mut left);
        if !found.is_empty() {
            *functions = found;
        }
    }
}

/// Maximum number of steps per batch of addresses: an address takes a few hundred, this is some
/// thousand times more than a batch needs.
const STEPS: usize = 1 << 26;

fn symbols(
    table: &Pclntab,
    address: u64,
    options: &SymbolOptions,
    texts: &mut Texts,
    left: &mut usize,
) -> Vec<Symbol> {
    // Handlers return to the first instruction of this function, and callers are looked up one byte
    // before that.
    let is_return = |function: &Function<'_>| function.is_signal_return() && function.entry() > address;
    let behind = table.function_at(address.saturating_add(1)).filter(is_return);
    let Some(function) = behind.or_else(|| table.function_at(address)) else { return Vec::new() };
    let address = address.max(function.entry());
    let inlined = table.functions(&function, address, left);
    let symbol = |inlined: crate::go::Inlined<'_>| {
        let (file, line) = match options.lines {
            true => (function.file(inlined.address, left), function.line(inlined.address, left)),
            false => (None, None),
        };
        Symbol {
            function: texts.share(inlined.name),
            file: texts.share(file.unwrap_or_default()),
            line: line.unwrap_or(0),
            start_line: inlined.start_line,
            ..Symbol::default()
        }
    };
    inlined.into_iter().map(symbol).collect()
}
