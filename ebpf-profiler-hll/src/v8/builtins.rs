//! The embedded builtins: code that V8 compiles when it is built, in the file of the runtime.
//!
//! ```text
//!   Builtins_DeoptimizationEntry_Eager … Builtins_InterpreterEntryTrampoline … Builtins_WideHandler … last handler
//!                                                                              └──── bytecode handlers ────┘
//! ```
//!
//! They have no unwind data. Most are functions of their own, native frames with rows that are
//! derived from their instructions. The others are part of JavaScript functions: bytecode handlers,
//! and what builds, leaves or continues their frames.

use std::ops::Range;

use ebpf_profiler_core::elf::{Elf, Symbol};
use ebpf_profiler_core::unwind::{BareFunction, Entry};

use super::embedded;
use super::symbols::Symbols;

/// Returns the addresses of all builtins, sorted, if they have no sizes: those of Node.js 12.
fn starts(symbols: &Symbols) -> Vec<u64> {
    let without_size = symbols.builtins.iter().filter(|(_, symbol)| symbol.size == 0);
    let mut starts: Vec<u64> = without_size.map(|(_, symbol)| symbol.address).collect();
    starts.sort_unstable();
    starts
}

/// Returns a symbol with the size up to the next one, unless it has a size.
fn with_size(symbol: Symbol, starts: &[u64]) -> Symbol {
    if symbol.size != 0 {
        return symbol;
    }
    let next = starts.get(starts.partition_point(|&start| start <= symbol.address));
    let end = next.copied().unwrap_or(symbol.address.saturating_add(LAST));
    Symbol { size: end.saturating_sub(symbol.address), ..symbol }
}

/// Size of the last builtin, if builtins have no sizes.
const LAST: u64 = 256;

/// No builtins.
const NONE: Range<u64> = Range { start: u64::MAX, end: 0 };

/// Extends a range by a symbol.
fn extend(range: &mut Range<u64>, symbol: Symbol) {
    range.start = range.start.min(symbol.address);
    range.end = range.end.max(symbol.address.saturating_add(symbol.size));
}

/// Maximum size of the table of the sizes of bytecodes.
const MAX_SIZES: u64 = 3 * 256;

/// Maximum size of a builtin that is searched for its frame.
const MAX_CODE: u64 = 4096;

/// The embedded builtins of a file, in virtual addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Builtins {
    pub(super) all: Range<u64>,
    /// Start of the bytecode handlers, the last of them.
    pub(super) handlers: u64,
    /// `InterpreterEntryTrampoline`.
    pub(super) entry: Part,
    /// `BaselineOutOfLinePrologue`.
    pub(super) prologue: Part,
    /// `BaselineLeaveFrame`.
    pub(super) leave: Part,
    /// The builtins that continue an interpreted frame.
    pub(super) resume: Range<u64>,
    /// The builtins that continue an interpreted frame or baseline code.
    pub(super) resume_either: Range<u64>,
    /// The sizes of bytecodes: a byte for each, three times. Empty if unknown.
    pub(super) sizes: Vec<u8>,
    /// The other builtins, functions of their own, sorted by address.
    pub(super) functions: Vec<BareFunction>,
}

/// One builtin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range<u64>,
    /// Distance of the first `push rbp; mov rbp, rsp`.
    pub(super) frame: u64,
}

impl Builtins {
    /// Returns the ranges of code that is part of JavaScript functions, which only V8's walker
    /// unwinds.
    pub(super) fn shared(&self) -> impl Iterator<Item = Range<u64>> {
        // Callers are looked up one byte before the address to which is returned, which may be the first
        // one.
        let resumed = |range: &Range<u64>| range.start.saturating_sub(1)..range.end;
        let parts = [&self.entry, &self.prologue, &self.leave].map(|part| part.range.clone());
        let resumed = [&self.resume, &self.resume_either].map(resumed);
        let handlers = self.handlers..self.all.end;
        parts.into_iter().chain(resumed).chain([handlers]).filter(|range| !range.is_empty())
    }

    /// Finds the builtins in the symbol table, or without one by what V8 exports.
    pub(super) fn find(elf: &Elf, symbols: &Symbols) -> Option<Builtins> {
        let mut found = Found { sizes: symbols.sizes, ..Found::default() };
        let starts = starts(symbols);
        for (name, symbol) in &symbols.builtins {
            found.add(name, with_size(*symbol, &starts));
        }
        if found.entry.is_none() {
            found = Found { sizes: elf.exports()?.get(SIZES), ..Found::default() };
            embedded::for_each(elf, |name, symbol| found.add(name, symbol))?;
        }
        found.read(elf)
    }
}

/// The builtins that were found so far.
struct Found {
    all: Range<u64>,
    handlers: Option<u64>,
    entry: Option<Symbol>,
    prologue: Option<Symbol>,
    leave: Option<Symbol>,
    resume: Range<u64>,
    resume_either: Range<u64>,
    sizes: Option<Symbol>,
    functions: Vec<BareFunction>,
}

impl Default for Found {
    fn default() -> Found {
        Found {
            all: NONE,
            handlers: None,
            entry: None,
            prologue: None,
            leave: None,
            resume: NONE,
            resume_either: NONE,
            sizes: None,
            functions: Vec::new(),
        }
    }
}

impl Found {
    fn add(&mut self, name: &[u8], symbol: Symbol) {
        extend(&mut self.all, symbol);
        let range = symbol.address..symbol.address.saturating_add(symbol.size);
        let is_continued = name.starts_with(CONTINUED);
        let entry = if is_continued { Entry::Framed } else { Entry::Called };
        self.functions.push(BareFunction { range, entry });
        match name {
            b"WideHandler" => self.handlers = Some(symbol.address),
            b"InterpreterEntryTrampoline" => self.entry = Some(symbol),
            b"BaselineOutOfLinePrologue" => self.prologue = Some(symbol),
            b"BaselineLeaveFrame" => self.leave = Some(symbol),
            b"InterpreterEnterAtBytecode"
            | b"InterpreterEnterAtNextBytecode"
            | b"InterpreterEnterBytecodeAdvance"
            | b"InterpreterEnterBytecodeDispatch" => extend(&mut self.resume, symbol),
            b"BaselineOrInterpreterEnterAtBytecode" | b"BaselineOrInterpreterEnterAtNextBytecode" => {
                extend(&mut self.resume_either, symbol);
            }
            _ => {}
        }
    }

    fn read(self, elf: &Elf) -> Option<Builtins> {
        let handlers = self.handlers?;
        let part = |symbol: Option<Symbol>| symbol.and_then(|symbol| Part::read(elf, symbol));
        let mut builtins = Builtins {
            all: self.all,
            handlers,
            entry: part(self.entry)?,
            prologue: part(self.prologue).unwrap_or_default(),
            leave: part(self.leave).unwrap_or_default(),
            resume: self.resume,
            resume_either: self.resume_either,
            sizes: self.sizes.and_then(|symbol| bytes(elf, symbol, MAX_SIZES)).unwrap_or_default(),
            functions: self.functions,
        };
        let shared: Vec<_> = builtins.shared().collect();
        let is_shared = |at: u64| shared.iter().any(|range| range.contains(&at));
        builtins.functions.retain(|function| !is_shared(function.range.start));
        builtins.functions.sort_unstable_by_key(|function| (function.range.start, function.range.end));
        Some(builtins)
    }
}

/// Prefix of the names of builtins that continue in a frame written by the deoptimizer.
const CONTINUED: &[u8] = b"ContinueTo";

/// The table of the sizes of bytecodes.
pub(super) const SIZES: &str = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE";

impl Part {
    fn read(elf: &Elf, symbol: Symbol) -> Option<Part> {
        let code = bytes(elf, symbol, MAX_CODE)?;
        let frame =
            code.windows(4).position(|bytes| matches!(bytes, b"\x55\x48\x89\xe5" | b"\x55\x48\x8b\xec"));
        let range = symbol.address..symbol.address.checked_add(symbol.size)?;
        Some(Part { range, frame: frame.unwrap_or(0) as u64 })
    }
}

/// Reads at most `limit` bytes of a symbol.
fn bytes(elf: &Elf, symbol: Symbol, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(symbol.size.min(limit)).ok()?];
    elf.read(symbol.address, &mut bytes).ok()?;
    Some(bytes)
}
