//! The embedded builtins: code that V8 compiles when it is built, in the file of the runtime.
//!
//! ```text
//!   Builtins_DeoptimizationEntry_Eager … Builtins_InterpreterEntryTrampoline … Builtins_WideHandler … last handler
//!                                                                              └──── bytecode handlers ────┘
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::{Elf, Symbol};

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
    /// The sizes of bytecodes: a byte for each, three times. Empty if unknown.
    pub(super) sizes: Vec<u8>,
}

/// One builtin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range<u64>,
    /// Distance of the first `push rbp; mov rbp, rsp`.
    pub(super) frame: u64,
}

impl Builtins {
    /// Finds the builtins in the symbol table.
    pub(super) fn find(elf: &Elf) -> Option<Builtins> {
        let mut all = Range { start: u64::MAX, end: 0 };
        let (mut handlers, mut entry, mut prologue, mut leave, mut sizes) = (None, None, None, None, None);
        elf.for_each_symbol(|name, symbol| {
            if name == SIZES {
                sizes = Some(symbol);
            }
            let Some(name) = name.strip_prefix(b"Builtins_") else { return };
            all.start = all.start.min(symbol.address);
            all.end = all.end.max(symbol.address.saturating_add(symbol.size));
            match name {
                b"WideHandler" => handlers = Some(symbol.address),
                b"InterpreterEntryTrampoline" => entry = Some(symbol),
                b"BaselineOutOfLinePrologue" => prologue = Some(symbol),
                b"BaselineLeaveFrame" => leave = Some(symbol),
                _ => {}
            }
        });
        let part = |symbol: Option<Symbol>| symbol.and_then(|symbol| Part::read(elf, symbol));
        let sizes = sizes.and_then(|symbol| bytes(elf, symbol, MAX_SIZES)).unwrap_or_default();
        Some(Builtins {
            handlers: handlers?,
            entry: part(entry)?,
            prologue: part(prologue).unwrap_or_default(),
            leave: part(leave).unwrap_or_default(),
            sizes,
            all,
        })
    }
}

/// The table of the sizes of bytecodes.
const SIZES: &[u8] = b"_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE";

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
