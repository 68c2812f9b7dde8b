//! Reads compiled code: its function, and the calls that were inlined into it.
//!
//! ```text
//!   Code                  instructions │ kind │ positions │ deoptimization data, or bytecode of baseline code
//!   deoptimization data   … │ literals │ function │ inlined calls │ …
//!   inlined call          position of the call u64 │ index of its function in the literals i32 │ unused
//! ```

use ebpf_profiler_core::language::Reason;

use ebpf_programs::walk::identity::v8 as identity;

use super::heap::{Heap, Object};
use super::positions::Position;
use super::version::Version;
use ebpf_profiler_core::language::Words;

/// Maximum size of a table, in bytes.
const MAX_TABLE: usize = 1 << 20;

/// Size of an inlined call, in bytes.
const INLINED_CALL: usize = 16;

/// Bytes at the start of a `Code` object that hold its fields.
const HEAD: usize = 72;

/// Offset of the word with the size that a check covers.
const CHECKED: u32 = 56;

/// Maximum size of code that is found by an address in it, in bytes.
const MAX_CODE: u64 = 1 << 18;

/// Size of the pages in which code is read.
const PAGE: u64 = 4096;

/// Alignment of instructions.
const ALIGNMENT: u64 = 32;

/// Versions in which the kinds of [`STUBS`] have numbers that are greater by one.
const FURTHER: [std::ops::Range<Version>; 2] =
    [Version(0, 0)..Version(9, 0), Version(14, 6)..Version(u32::MAX, 0)];

/// Kinds of code that is of no function, with their names.
const STUBS: [(u32, &str); 2] = [(3, REGULAR_EXPRESSION), (7, INTO_WASM)];

/// Name of the code of a regular expression.
const REGULAR_EXPRESSION: &str = "(regular expression)";

/// Name of the code that calls a function of WebAssembly.
const INTO_WASM: &str = "(js to wasm)";

/// A `Code` object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) object: Object,
    pub(super) start: u64,
    pub(super) size: u32,
    pub(super) kind: u32,
    pub(super) check: u32,
}

/// A call that was inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InlinedCall {
    /// Position of the call in its caller.
    pub(super) position: Option<Position>,
    /// Index of the called function.
    pub(super) function: u32,
}

/// The deoptimization data of optimized code.
pub(super) struct Deopt {
    /// The function that was compiled.
    pub(super) shared: Object,
    pub(super) calls: Vec<InlinedCall>,
    literals: Object,
}

impl Code {
    /// Reads a `Code` object.
    pub(super) fn read(heap: &Heap<'_>, object: Object) -> Result<Code, Reason> {
        let layout = &heap.layout.code;
        let head: [u8; HEAD] = heap.memory.array(object.field(0))?;
        let word =
            |at: u32| head.get(at as usize..).and_then(<[u8]>::first_chunk).copied().map(u64::from_le_bytes);
        let number = |at: u32| word(at).map(|word| word as u32);
        let map = word(0).and_then(Object::from_word).ok_or(Reason::Implausible)?;
        if heap.kind_in(map)? != heap.layout.types.code {
            return Err(Reason::Implausible);
        }
        let read = || {
            let start = if layout.instructions == 0 {
                word(layout.start)?
            } else {
                object.field(layout.instructions)
            };
            let kind = number(layout.flags)? >> layout.kind_shift & layout.kind_mask;
            let deopt = if kind == layout.baseline { 0 } else { word(layout.deopt)? };
            Some((start, kind, deopt, word(CHECKED)?, number(layout.size)?))
        };
        let (start, kind, deopt, checked, size) = read().ok_or(Reason::Implausible)?;
        let check =
            identity::code(&mut Words::new(heap.memory), start, checked, deopt, heap.layout.numbers());
        Ok(Code { object, start, size, kind, check })
    }

    /// Returns `true` if it covers an address.
    pub(super) fn contains(&self, pc: u64) -> bool {
        pc.wrapping_sub(self.start) < self.size.into()
    }

    pub(super) fn is_baseline(&self, heap: &Heap<'_>) -> bool {
        self.kind == heap.layout.code.baseline
    }

    /// Returns the name of code that is of no function.
    pub(super) fn stub(&self, heap: &Heap<'_>) -> Option<&'static str> {
        let further = FURTHER.iter().any(|versions| versions.contains(&heap.layout.version));
        let kind = self.kind.checked_sub(further.into())?;
        STUBS.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name)
    }

    /// Returns the table of positions, of baseline code that of bytecode offsets.
    pub(super) fn table(&self, heap: &Heap<'_>) -> Result<Vec<u8>, Reason> {
        heap.bytes(heap.object(self.object, heap.layout.code.positions)?, MAX_TABLE)
    }

    /// Returns the bytecode that baseline code was compiled from.
    pub(super) fn bytecode(&self, heap: &Heap<'_>) -> Result<Object, Reason> {
        let object = heap.object(self.object, heap.layout.code.deopt)?;
        bytecode(heap, object)
    }

    /// Reads the deoptimization data of optimized code.
    pub(super) fn deopt(&self, heap: &Heap<'_>) -> Result<Deopt, Reason> {
        const IN_WRAPPER: u32 = 8;
        let layout = &heap.layout.deopt;
        let data = heap.object(self.object, heap.layout.code.deopt)?;
        let element = |index| Object::from_word(heap.element(data, index)?).ok_or(Reason::Implausible);
        let mut shared = element(layout.shared)?;
        if layout.is_wrapped {
            shared = heap.object(shared, IN_WRAPPER)?;
        }
        let calls = heap.bytes(element(layout.inlinings)?, MAX_TABLE)?;
        let calls = calls.as_chunks::<INLINED_CALL>().0.iter().map(|bytes| InlinedCall {
            position: bytes.first_chunk().and_then(|bits| Position::from_bits(u64::from_le_bytes(*bits))),
            function: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
        });
        Ok(Deopt { shared, calls: calls.collect(), literals: element(layout.literals)? })
    }

    /// Searches for the code that covers an address, backwards from there.
    ///
    /// The instructions are preceded by an object that refers to their `Code`, or by the `Code`
    /// itself.
    pub(super) fn find(heap: &Heap<'_>, pc: u64) -> Option<Code> {
        let layout = &heap.layout.code;
        let distance = distance(heap)?;
        let mut page = [0; PAGE as usize];
        let mut loaded = 0;
        let last = pc & !(ALIGNMENT - 1);
        for back in 0..MAX_CODE / ALIGNMENT {
            let instructions = last.wrapping_sub(back * ALIGNMENT);
            let at = instructions.wrapping_sub(distance);
            if loaded != at & !(PAGE - 1) {
                loaded = at & !(PAGE - 1);
                heap.memory.read(loaded, &mut page).ok()?;
            }
            let word = page.get((at - loaded) as usize..)?.first_chunk().copied().map(u64::from_le_bytes)?;
            let object = match layout.instructions {
                0 => Object::from_word(word),
                _ => Object::at(at).ok().filter(|_| Object::from_word(word).is_some()),
            };
            let code = object.and_then(|object| Code::read(heap, object).ok());
            if let Some(code) = code.filter(|code| code.start == instructions) {
                return code.contains(pc).then_some(code);
            }
        }
        None
    }

    /// Returns `true` if it still has its instructions. An object that was freed may look as before
    /// when other code has taken their place.
    pub(super) fn is_current(&self, heap: &Heap<'_>) -> bool {
        let owner = || {
            let at = self.start.checked_sub(distance(heap)?)?;
            heap.memory.array(at).ok().map(u64::from_le_bytes)
        };
        let is_owner = heap.layout.code.instructions != 0 || owner() == Some(self.object.tagged());
        is_owner && Code::read(heap, self.object) == Ok(*self)
    }
}

/// Returns the distance to instructions from the word that refers to their `Code`, or from the
/// start of that.
fn distance(heap: &Heap<'_>) -> Option<u64> {
    match heap.layout.code.instructions {
        0 => u64::from(heap.layout.code.header).checked_sub(8),
        instructions => Some(instructions.into()),
    }
}

impl Deopt {
    /// Returns the `SharedFunctionInfo` of an inlined function.
    pub(super) fn function(&self, heap: &Heap<'_>, index: u32) -> Result<Object, Reason> {
        match index {
            u32::MAX => Ok(self.shared),
            _ => Object::from_word(heap.element(self.literals, index)?).ok_or(Reason::Implausible),
        }
    }
}

/// Returns the baseline code of a function's data.
pub(super) fn baseline(heap: &Heap<'_>, data: Object) -> Result<Code, Reason> {
    let between = heap.layout.baseline_data.filter(|between| heap.kind(data) == Ok(between.kind));
    let code = between.map_or(Ok(data), |between| heap.object(data, between.code))?;
    Code::read(heap, code).and_then(|code| code.is_baseline(heap).then_some(code).ok_or(Reason::Implausible))
}

/// Returns the `BytecodeArray` of a function's data or of baseline code.
pub(super) fn bytecode(heap: &Heap<'_>, object: Object) -> Result<Object, Reason> {
    const IN_INTERPRETER_DATA: u32 = 8;
    let types = &heap.layout.types;
    let kind = heap.kind(object)?;
    let inner = match heap.layout.baseline_data {
        _ if kind == types.code => heap.object(object, heap.layout.code.deopt)?,
        Some(between) if kind == between.kind => heap.object(object, between.bytecode)?,
        _ => object,
    };
    let inner = match heap.kind(inner)? {
        kind if kind == types.interpreter_data => heap.object(inner, IN_INTERPRETER_DATA)?,
        _ => inner,
    };
    heap.ensure_kind(inner, types.bytecode)?;
    Ok(inner)
}
