//! Frames of V8: functions in its interpreter and in the code of its compilers, and its builtins.
//!
//! All code of V8 links its frames by the frame pointer; see [`abi::v8`](crate::abi::v8) for their words. The leaf may have
//! no frame yet, or no longer:
//!
//! | code at the leaf | frame |
//! | --- | --- |
//! | prologue or epilogue, by its instructions | the return address is at the stack pointer, or in a register |
//! | bytecode handler without one | that of the interpreted function |
//!
//! | frame | emitted as |
//! | --- | --- |
//! | JavaScript function | its `SharedFunctionInfo` or `Code`, which the garbage collector moves rarely |
//! | bytecode handler, which is part of an interpreted function | nothing |
//! | WebAssembly, regular expression, other compiled code | its address |
//!
//! Builtins that are functions of their own are native frames, for which the unwind table of their file has rows.
//!
//! Executable memory without a file may contain code of other compilers. A frame in it is V8's if it
//! has a function, a type, or the string and index of a regular expression, whose frames have no
//! type in older versions. All others are unwound by the rules for unknown code.

use super::arch::{Arch, CallInstruction, HalfFrame, HalfState};
use super::identity::v8::{self as identity, Numbers};
use super::{Caller, Walk};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::abi::table::Rule;
use crate::abi::v8::{address_check, parameter, shape};
use crate::machine::Machine;

/// Maximum distance from the stack pointer to the frame pointer, in bytes.
const MAX_FRAME: u64 = 1 << 24;

/// Minimum distance from the stack pointer to the frame pointer of a whole frame, in bytes. The words between them identify its
/// function.
const MIN_FRAME: u64 = 16;

/// Number of bytes that a prologue takes to push what identifies its function.
const PUSHES: u64 = 8;

/// Marks of frames without a function: twice a small number for each type.
const TYPES: core::ops::RangeInclusive<u64> = 2..=128;

/// Mask of the distance from the start of a page.
const PAGE: u64 = 4095;

/// Size of the pages of V8's heap, which are aligned to it.
const PAGE_OF_HEAP: u64 = 1 << 18;

/// Kinds of code.
mod kind {
    /// Compiled code.
    pub(super) const COMPILED: u32 = 0;
    /// A bytecode handler.
    pub(super) const HANDLER: u32 = 1;
    /// `InterpreterEntryTrampoline`.
    pub(super) const ENTRY: u32 = 2;
    /// The prologue or epilogue that all baseline code shares.
    pub(super) const BASELINE: u32 = 3;
}

/// Locations of a frame's return address.
mod state {
    /// Behind the frame pointer.
    pub(super) const WHOLE: u32 = 0;
    /// The same, but the function is only in its register.
    pub(super) const BUILDING: u32 = 1;
    /// At the stack pointer, with the function in its register.
    pub(super) const ENTERED: u32 = 2;
    /// At the stack pointer, with the frame still below it.
    pub(super) const LEFT: u32 = 3;
    /// At the stack pointer or in a register.
    pub(super) const GONE: u32 = 4;
}

/// Emits the frame at `pc` and unwinds to its caller. Returns `false` if the caller is unknown.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    let kind = kind_at(walk, pc);
    let sp = walk.registers.values[A::SP];
    let fp = walk.registers.values[A::FP];
    let mut leaf = Leaf {
        state: state::WHOLE,
        caller: Caller { pc: 0, sp, fp, is_fp_known: true, kept: None, flags: 0 },
    };
    if walk.flags & frame::EXACT != 0 {
        look_at_leaf::<A, M>(walk, machine, pc, kind, &mut leaf);
    }
    let mut function = walk.registers.values[A::JS_FUNCTION];
    let mut offset = 0;
    let mut is_typed = false;
    let mut is_regexp = false;
    if leaf.state <= state::BUILDING {
        let is_frame = fp & 7 == 0
            && fp != 0
            && fp.wrapping_sub(sp) <= MAX_FRAME
            && walk.register(A::FP as u8).is_some();
        let words = if is_frame { machine.read_frame(fp.wrapping_sub(56), 72) } else { None };
        let Some(words) = words else {
            walk.emit_native(machine, pc);
            return Ok(false);
        };
        leaf.caller.fp = words[7];
        leaf.caller.pc = A::strip(words[8]);
        leaf.caller.sp = fp.wrapping_add(16);
        if leaf.state == state::WHOLE {
            is_typed = words[6] & 1 == 0;
            is_regexp = words[6] & 3 == 1 && words[5] >> 31 == 0;
            let is_marked = !is_typed || TYPES.contains(&words[6]);
            if kind == kind::COMPILED && !(is_marked && fp.wrapping_sub(sp) >= MIN_FRAME) {
                walk.emit_native(machine, pc);
                return Ok(false);
            }
            function = words[5];
            offset = words[7u64.wrapping_sub(parameter(walk, parameter::OFFSET_WORD)) as usize & 7];
        }
    } else if leaf.state == state::LEFT {
        // {function, context, frame pointer}, below the return address.
        function = machine.read_memory(sp.wrapping_sub(24)).unwrap_or(0);
    } else if leaf.state == state::GONE {
        function = 0;
    }
    match kind {
        kind::HANDLER | kind::ENTRY if is_typed => {}
        // The frame that a handler builds or leaves is its own.
        kind::HANDLER if leaf.state == state::BUILDING => {}
        kind::HANDLER | kind::ENTRY => {
            emit_function(walk, machine, pc, function, shape::INTERPRETED, (offset >> 32) as u32);
        }
        kind::BASELINE if is_typed => walk.emit_native(machine, pc),
        _ if is_typed => {
            emit_compiled(walk, machine, pc, 0, true);
        }
        kind::BASELINE => {
            // The first line while the frame is built, else the last one.
            let position =
                if leaf.state == state::BUILDING || leaf.state == state::ENTERED { 0 } else { u32::MAX };
            emit_function(walk, machine, pc, function, shape::BASELINE, position);
        }
        _ => {
            let is_certain = is_regexp || leaf.state != state::WHOLE;
            if !emit_compiled(walk, machine, pc, function, is_certain) {
                walk.emit_native(machine, pc);
                return Ok(false);
            }
        }
    }
    walk.enter_caller::<A>(&leaf.caller)?;
    Ok(true)
}

/// The frame of a leaf.
struct Leaf {
    /// One of [`state`].
    state: u32,
    /// The caller, unless the state leads to it by the frame pointer.
    caller: Caller,
}

#[inline(always)]
fn parameter(walk: &Walk, index: usize) -> u64 {
    walk.interpreter.parameters[index]
}

/// Returns the distance of `pc` from a builtin, if it lies in it.
#[inline(always)]
fn within(walk: &Walk, pc: u64, start: usize, size: usize) -> Option<u64> {
    let distance = pc.wrapping_sub(parameter(walk, parameter::BUILTINS)).wrapping_sub(parameter(walk, start));
    (distance < parameter(walk, size)).then_some(distance)
}

/// Returns the [`kind`] of the code at `pc`.
#[inline(always)]
fn kind_at(walk: &Walk, pc: u64) -> u32 {
    let distance = pc.wrapping_sub(parameter(walk, parameter::BUILTINS));
    if distance >= parameter(walk, parameter::BUILTINS_SIZE) {
        kind::COMPILED
    } else if distance >= parameter(walk, parameter::HANDLERS) {
        kind::HANDLER
    } else if within(walk, pc, parameter::ENTRY, parameter::ENTRY_SIZE).is_some() {
        kind::ENTRY
    } else if within(walk, pc, parameter::PROLOGUE, parameter::PROLOGUE_SIZE).is_some()
        || within(walk, pc, parameter::LEAVE, parameter::LEAVE_SIZE).is_some()
    {
        kind::BASELINE
    } else if is_resumed(walk, pc, parameter::RESUME, parameter::RESUME_SIZE)
        || is_resumed(walk, pc, parameter::RESUME_EITHER, parameter::RESUME_EITHER_SIZE)
    {
        kind::ENTRY
    } else {
        kind::COMPILED
    }
}

/// Returns `true` in builtins that continue a frame which the deoptimizer wrote. Their start may be its return address, without
/// a call before it.
#[inline(always)]
fn is_resumed(walk: &Walk, pc: u64, start: usize, size: usize) -> bool {
    let after_call = if walk.flags & frame::EXACT == 0 { 1 } else { 0 };
    parameter(walk, size) != 0 && within(walk, pc.wrapping_add(after_call), start, size).is_some()
}

/// Finds the return address of the leaf.
#[inline(always)]
fn look_at_leaf<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, pc: u64, kind: u32, leaf: &mut Leaf) {
    let sp = leaf.caller.sp;
    // Its own frame, if it has one, is below that of the function.
    if kind == kind::HANDLER {
        if sp == leaf.caller.fp {
            leaf.state = state::BUILDING;
        }
        return;
    }
    let HalfFrame { state: found, address, sp: returned } = A::half_frame(machine, pc, &walk.registers);
    let shared = parameter(walk, parameter::BUILTINS).wrapping_add(parameter(walk, parameter::PROLOGUE));
    // The builtins may be mapped twice.
    let is_shared = (address ^ shared) & PAGE == 0 && parameter(walk, parameter::PROLOGUE_SIZE) != 0;
    let half = match found {
        HalfState::Calling if is_shared => HalfState::Entered,
        HalfState::Calling => HalfState::Whole,
        other => other,
    };
    let entry = within(walk, pc, parameter::ENTRY, parameter::ENTRY_SIZE);
    let prologue = within(walk, pc, parameter::PROLOGUE, parameter::PROLOGUE_SIZE);
    let (at, frame) = match (entry, prologue) {
        (Some(at), _) => (at, parameter(walk, parameter::ENTRY_FRAME)),
        (_, Some(at)) => (at, parameter(walk, parameter::PROLOGUE_FRAME)),
        _ => (0, 0),
    };
    // The shared prologue of baseline code pops its own return address before it pushes the frame pointer.
    let called = if prologue.is_some() && at.wrapping_add(2) <= frame { 8 } else { 0 };
    let is_entered = frame != 0 && at <= frame;
    let mut is_whole = match half {
        _ if is_entered => false,
        HalfState::Pushed
        | HalfState::Entered
        | HalfState::Left
        | HalfState::LeftBelow
        | HalfState::Returning => false,
        HalfState::Whole | HalfState::Calling => true,
        HalfState::Ending => return,
    };
    // Bytes that look like a prologue or an epilogue may be those of other code.
    let is_likely = !is_entered
        && (half == HalfState::LeftBelow || half == HalfState::Entered && found == HalfState::Entered);
    is_whole |= is_likely && !is_behind_call::<A, M>(walk, machine, sp);
    if is_whole {
        if leaf.caller.fp.wrapping_sub(sp) < 16 || frame != 0 && at.wrapping_sub(frame) < PUSHES {
            leaf.state = state::BUILDING;
        }
        return;
    }
    leaf.state = if is_entered { state::ENTERED } else { state::GONE };
    let words = machine.read_object(sp.wrapping_add(called), 16).map_or([0; 2], |words| [words[0], words[1]]);
    leaf.caller.pc = A::strip(words[0]);
    leaf.caller.sp = sp.wrapping_add(called).wrapping_add(8);
    match half {
        HalfState::Pushed => {
            leaf.caller.fp = words[0];
            leaf.caller.pc = A::strip(words[1]);
            leaf.caller.sp = sp.wrapping_add(16);
            leaf.state = state::ENTERED;
        }
        HalfState::Entered => leaf.state = state::ENTERED,
        HalfState::LeftBelow if !is_entered => leaf.state = state::LEFT,
        HalfState::Returning => {
            leaf.caller.pc = A::strip(address);
            leaf.caller.sp = returned;
        }
        _ => {}
    }
}

/// Returns `true` if the address at `sp` is behind a call instruction.
#[inline(always)]
fn is_behind_call<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, sp: u64) -> bool {
    let target = A::strip(machine.read_stack(sp).unwrap_or(0));
    walk.mapping_of(machine, target.wrapping_sub(1)).is_some()
        && A::call_before(machine, target) != CallInstruction::None
}

/// Returns the tagged `SharedFunctionInfo` of a tagged `JSFunction`, and its tagged `Code` or the handle of that.
#[inline(always)]
fn fields<M: Machine>(walk: &Walk, machine: &mut M, function: u64) -> Option<(u64, u64)> {
    const FIRST: u64 = 24;
    if function & 3 != 1 {
        return None;
    }
    let words = machine.read_object(function.wrapping_add(FIRST - 1), 32)?;
    let word = |offset: u64| words[(offset.wrapping_sub(FIRST) >> 3) as usize & 3];
    Some((word(parameter(walk, parameter::SHARED)), word(parameter(walk, parameter::CODE))))
}

/// Returns the tagged `Code` from the field of a function, which is a handle if there is a table of entry points.
#[inline(always)]
fn code_of<M: Machine>(machine: &mut M, table: u64, field: u64) -> u64 {
    if table == 0 {
        return field;
    }
    // {entry point, Code << 16 | parameter count}, 16 bytes each; handles are shifted by 8.
    let entry = table.wrapping_add((field as u32 as u64 >> 8) << 4);
    machine.read_memory(entry.wrapping_add(8)).unwrap_or(0) >> 16 | 1
}

/// Returns the table of entry points of an object's isolate, 0 if functions refer to their code themselves.
#[inline(always)]
fn dispatch_table<M: Machine>(walk: &Walk, machine: &mut M, object: u64) -> u64 {
    let (heap, known) = (parameter(walk, parameter::HEAP), parameter(walk, parameter::DISPATCH));
    if heap == 0 || known != 0 {
        return known;
    }
    // page: {flags, metadata}; metadata: {…, heap, …}
    let mut at = (object & !(PAGE_OF_HEAP - 1)).wrapping_add(8);
    for offset in [heap, parameter(walk, parameter::HEAP_DISPATCH), 0] {
        at = machine.read_memory(at).unwrap_or(0).wrapping_add(offset);
    }
    at
}

/// A `Code` object that covers an address. Not in an `Option`, whose value would be stored before it is known, which the verifier
/// rejects.
struct Code {
    /// Its tagged address; 0 if there is none.
    address: u64,
    /// Offset of the address in its instructions.
    offset: u64,
    check: u32,
    is_baseline: bool,
    /// Lower half of its first word. The garbage collector replaces that of an object that it moves or frees.
    map: u32,
}

impl Code {
    const NONE: Code = Code { address: 0, offset: 0, check: 0, is_baseline: false, map: 0 };

    fn is_found(&self) -> bool {
        self.address != 0
    }
}

/// Returns the tagged `Code` object `code` if it covers one of two addresses.
#[inline(always)]
fn code_at<M: Machine>(walk: &mut Walk, machine: &mut M, code: u64, pc: u64, other: u64) -> Code {
    const FIRST: u64 = 40;
    if code & 3 != 1 {
        return Code::NONE;
    }
    let Some(words) = machine.read_object(code.wrapping_sub(1), FIRST as u32 + 24) else { return Code::NONE };
    let map = words[0] as u32;
    let data = [words[1], words[2]];
    let words = [words[5], words[6], words[7]];
    let half = |offset: u64| {
        let index = offset.wrapping_sub(FIRST);
        let word = if index < 8 {
            words[0]
        } else if index < 16 {
            words[1]
        } else {
            words[2]
        };
        word >> ((index & 4) * 8) & 0xffff_ffff
    };
    let instructions = parameter(walk, parameter::INSTRUCTIONS);
    let start = if instructions == 0 { words[0] } else { code.wrapping_sub(1).wrapping_add(instructions) };
    let size = half(parameter(walk, parameter::SIZE));
    if pc.wrapping_sub(start) >= size && other.wrapping_sub(start) >= size {
        return Code::NONE;
    }
    let flags = half(parameter(walk, parameter::FLAGS));
    let kind = flags >> (parameter(walk, parameter::KIND_SHIFT) & 31) & parameter(walk, parameter::KIND_MASK);
    let is_baseline = kind == parameter(walk, parameter::BASELINE);
    let numbers = Numbers::unpack(parameter(walk, parameter::NUMBERS));
    let deopt = if numbers.deopt == 8 { data[0] } else { data[1] };
    let deopt = if is_baseline { 0 } else { deopt };
    let check = match walk.checked.get(code) {
        Some(check) => check as u32,
        None => {
            let check = identity::code(machine, start, words[2], deopt, numbers);
            walk.checked.keep(code, check as u64);
            check
        }
    };
    Code { address: code, offset: pc.wrapping_sub(start), check, is_baseline, map }
}

/// Number of no table; the cache of rules holds `Code` objects under it, for each process.
const CACHED: u32 = 1 << 31;

/// Returns the `Code` object that was cached for a return address, if it is still there.
#[inline(always)]
fn cached<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Code {
    let Some(rule) = machine.cached_rule(walk.process.mappings | CACHED, pc) else { return Code::NONE };
    let address = rule.offset as u32 as u64 | (rule.aux as u32 as u64) << 32;
    let code = code_at(walk, machine, address, pc, pc);
    if code.map == rule.fp_offset as u32 { code } else { Code::NONE }
}

/// Caches the `Code` object of an address.
#[inline(always)]
fn cache<M: Machine>(walk: &Walk, machine: &mut M, pc: u64, code: &Code) {
    let [offset, aux, fp_offset] =
        [code.address as u32, (code.address >> 32) as u32, code.map].map(|half| half as i32);
    let rule = Rule { cfa: 0, register: 0, ra: 0, fp: 0, offset, aux, fp_offset };
    machine.cache_rule(walk.process.mappings | CACHED, pc, &rule);
}

/// Returns the check of a tagged `SharedFunctionInfo`.
#[inline(always)]
fn check_of<M: Machine>(walk: &mut Walk, machine: &mut M, shared: u64) -> Option<u32> {
    if let Some(check) = walk.checked.get(shared) {
        return Some(check as u32);
    }
    let numbers = Numbers::unpack(parameter(walk, parameter::NUMBERS));
    let check = identity::function(machine, shared, parameter(walk, parameter::POSITION_MASK), numbers)?;
    walk.checked.keep(shared, check as u64);
    Some(check)
}

/// Emits a function by its `SharedFunctionInfo`.
#[inline(always)]
fn emit_function<M: Machine>(
    walk: &mut Walk,
    machine: &mut M,
    pc: u64,
    function: u64,
    form: u8,
    position: u32,
) {
    if let Some((shared, _)) = fields(walk, machine, function)
        && let Some(check) = check_of(walk, machine, shared)
    {
        return walk.emit_runtime_frame(machine, form, shared.wrapping_sub(1), check, position);
    }
    walk.emit_native(machine, pc);
}

/// Emits a function by its optimized code.
#[inline(always)]
fn emit_optimized<M: Machine>(walk: &mut Walk, machine: &mut M, code: &Code) {
    let (address, position) = (code.address.wrapping_sub(1), code.offset as u32);
    walk.emit_runtime_frame(machine, shape::OPTIMIZED, address, code.check, position);
}

/// Emits a function in compiled code. Returns `false` if the frame has none, unless it is certain that the code is V8's.
#[inline(always)]
fn emit_compiled<M: Machine>(
    walk: &mut Walk,
    machine: &mut M,
    pc: u64,
    function: u64,
    mut is_certain: bool,
) -> bool {
    let is_exact = walk.flags & frame::EXACT != 0;
    let known = if is_exact { Code::NONE } else { cached(walk, machine, pc) };
    if known.is_found() {
        if known.is_baseline {
            emit_function(walk, machine, pc, function, shape::BASELINE, known.offset as u32);
        } else {
            emit_optimized(walk, machine, &known);
        }
        return true;
    }
    let (mut form, mut address, mut check, mut position) = (shape::ADDRESS, pc, 0, 0);
    if let Some((shared, code)) = fields(walk, machine, function) {
        let table = dispatch_table(walk, machine, function);
        let code = code_of(machine, table, code);
        let mut found = code_at(walk, machine, code, pc, pc);
        if found.is_found() {
            // That of the isolate, for the frames that follow.
            walk.interpreter.parameters[parameter::DISPATCH] = table;
            if !found.is_baseline {
                cache(walk, machine, pc, &found);
                emit_optimized(walk, machine, &found);
                return true;
            }
        }
        let of_function = check_of(walk, machine, shared);
        is_certain |= of_function.is_some();
        check = of_function.unwrap_or(0);
        if !found.is_found() {
            // A function whose code was replaced while it runs.
            let at = shared.wrapping_sub(1).wrapping_add(parameter(walk, parameter::DATA));
            let mut data = machine.read_memory(at).unwrap_or(0);
            let in_data = parameter(walk, parameter::DATA_CODE);
            if in_data != 0 {
                data = machine.read_memory(data.wrapping_sub(1).wrapping_add(in_data)).unwrap_or(0);
            }
            found = code_at(walk, machine, data, pc, pc);
        }
        if found.is_found() && found.is_baseline {
            cache(walk, machine, pc, &found);
            (form, address) = (shape::BASELINE, shared.wrapping_sub(1));
            position = found.offset as u32;
        }
    }
    if !is_certain {
        return false;
    }
    if form == shape::ADDRESS
        && let Some(around) = machine.read_object(pc.wrapping_sub(8), 16)
    {
        check = address_check(check, &[around[0], around[1]]);
    }
    walk.emit_runtime_frame(machine, form, address, check, position);
    true
}
