//! The frames of LuaJIT: slots of a Lua stack, each with the distance to its caller's.
//!
//! The loop is the interpreter's assembler code. Each of its frames on the native stack holds the address of its state, and
//! each coroutine has a state with a separate stack:
//!
//! ```text
//!   native stack            states
//!   loop ─────────────────► coroutine   inner ──► outer
//!   loop ─────────────────► main        resume ──► middle     one run, it ends with a function that C called
//!   lua_call, sort, …
//!   loop ─────────────────► main                              sort ──► main chunk
//! ```
//!
//! See [`abi::luajit`](crate::abi::luajit) for the words of a frame.

mod objects;

use super::state::phase;
use crate::abi::interpreter::{MAX_INTERPRETER_FRAMES, fold};
use crate::abi::luajit::{
    COMPACT, INSTRUCTION, NO_POSITION, WIDE, kind, native_frame, parameter, shape, value,
};
use crate::abi::mapping::kind as mapping_kind;
use crate::abi::record::frame;
use crate::abi::registers::x86_64;
use crate::machine::Machine;
use crate::walk::Walk;
use crate::walk::identity::luajit::Prototype;
use objects::{Frame, Function, State, halves, is_called, read_reference};

/// Maximum number of states whose frames a walk takes; a power of two.
const STATES: usize = 8;

/// DWARF numbers of the registers that hold the innermost frame's slot 0 and the next instruction, in the loop.
const BASE: u8 = 1;
const PC: u8 = 3;

/// Beginnings of the loop's code that loads an instruction: `mov`, `movzx`, and `add rbx, 4` or `add ebx, 4`.
const LOAD: u64 = 0x8b;
const EXTEND: u64 = 0xb60f;
const ADVANCE: u32 = 0x04c3_8348;
const COMPACT_ADVANCE: u32 = 0x04_c383;

/// The instruction of the loop that writes the link of a frame.
const LINKING: u32 = 0xf85a_8948;
const COMPACT_LINKING: u32 = 0xfc_5a89;

/// DWARF number of the register that holds slot 0 while the loop calls a function that knows no state.
const SAVED_BASE: u8 = 6;

/// Kinds of links.
const LINK: u64 = 7;
const METAMETHOD: u64 = 2;
const VARIABLE: u64 = 3;

/// Value of the third word below the link of a metamethod's frame: a call from C through the foreign function interface.
const CALLBACK: u64 = 1;

/// Distance between addresses that are searched for the loop's frame, in bytes.
const WORD: u64 = 8;

/// Maximum number of addresses that are searched for the loop's frame.
const SEARCHED: u64 = 192;

/// Maximum distance between two frames of a state on the native stack, in bytes.
const MAX_DISTANCE: u64 = 1 << 20;

/// The Lua stacks of a walk.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::walk) struct LuaStacks {
    /// 1 if the frame of the current loop was not found yet.
    is_entered: u32,
    /// Number of states.
    count: u32,
    /// Index of the current state.
    current: u32,
    /// Number of addresses that were searched for the loop's frame.
    searched: u32,
    /// Address of the loop's frame below which the current trace runs; 0 if it isn't found yet.
    trace: u64,
    /// Addresses of the states.
    states: [u64; STATES],
    /// The next frame of each state.
    frames: [u64; STATES],
    /// The lowest frame of the current state, which has no function.
    bottom: u64,
    /// The address after the current instruction of the next frame; 0 if unknown.
    pc: u64,
    /// Address of the loop's frame that was the innermost one of its state before the last one that was found; 0 for none.
    before: u64,
}

impl LuaStacks {
    /// Forgets the states of a previous walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.count = 0;
        self.before = 0;
        self.leave();
    }

    /// Begins the search for the frame of a loop.
    #[inline(always)]
    pub(super) fn enter(&mut self) {
        self.is_entered = 1;
        self.searched = 0;
    }

    /// Ends a search.
    #[inline(always)]
    pub(in crate::walk) fn leave(&mut self) {
        self.is_entered = 0;
        self.searched = 0;
        self.trace = 0;
    }

    /// Returns the address of the loop's frame below which the current trace runs; 0 if it isn't found yet.
    #[inline(always)]
    pub(in crate::walk) fn trace(&self) -> u64 {
        self.trace
    }
}

/// Takes the next frame. Returns `None` if it is unreadable, or beyond the limit.
#[inline(always)]
pub(super) fn take<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    if walk.interpreter.lua.is_entered != 0 {
        search(walk, machine, slot);
        return Some(());
    }
    if walk.interpreter.next[slot] == 0 {
        walk.interpreter.phase = phase::BEHIND;
        return Some(());
    }
    let lua = &walk.interpreter.lua;
    let index = lua.current as usize & (STATES - 1);
    let (at, pc) = (lua.frames[index], lua.pc);
    if at <= lua.bottom {
        walk.interpreter.phase = phase::BEHIND;
        return Some(());
    }
    if walk.interpreter.taken >= MAX_INTERPRETER_FRAMES {
        return None;
    }
    let is_compact = is_compact(walk);
    let Frame { continuation, saved_pc, called, link } = Frame::read(machine, at, is_compact)?;
    let is_lua = link & 3 == 0;
    let (distance, caller_pc) = if is_lua {
        let instruction = machine.read_memory(link.wrapping_sub(INSTRUCTION))?;
        (distance(instruction, is_compact), link)
    } else {
        let pc = match link & LINK {
            METAMETHOD => saved_pc,
            VARIABLE => pc,
            _ => 0,
        };
        (link & !LINK, pc)
    };
    let caller = at.wrapping_sub(distance);
    if caller >= at {
        return None;
    }
    let is_last = link & 3 == 1 || link & LINK == METAMETHOD && continuation == CALLBACK;
    let lua = &mut walk.interpreter.lua;
    lua.frames[index] = caller;
    lua.pc = caller_pc;
    if is_last {
        walk.interpreter.phase = phase::BEHIND;
    }
    if link & LINK == VARIABLE || called >> value::TAG_SHIFT == value::STATE {
        return Some(());
    }
    let is_named = is_lua || link & LINK == METAMETHOD && !is_last;
    emit(walk, machine, called & value::ADDRESS, pc, is_named)
}

/// Looks for the loop's frame at one address: at the stack pointer, or, in a subroutine of the loop and where it leaves a
/// trace, above it.
#[inline(always)]
fn search<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) {
    let searched = walk.interpreter.lua.searched as u64;
    let at = walk.interpreter.next[slot].wrapping_add(searched * WORD);
    walk.interpreter.lua.searched += 1;
    let is_found = find(walk, machine, at, false);
    if is_found {
        walk.registers.values[x86_64::SP] = at;
    }
    if is_found || searched >= SEARCHED {
        walk.interpreter.lua.is_entered = 0;
    }
    if !is_found && searched >= SEARCHED {
        walk.interpreter.phase = phase::BEHIND;
    }
}

/// Looks for the frame below which the current trace runs at one address. Returns `None` after the last one, `false` if it
/// isn't there. If it is, the next steps take its Lua frames.
#[inline(always)]
pub(in crate::walk) fn find_trace<M: Machine>(walk: &mut Walk, machine: &mut M, sp: u64) -> Option<bool> {
    let searched = walk.interpreter.lua.searched as u64;
    // Frames are aligned, but not the stack pointer where a trace is left.
    let sp = sp.wrapping_add(WORD) & !(2 * WORD - 1);
    let at = sp.wrapping_add((searched + 1) * 2 * WORD);
    walk.interpreter.lua.searched += 1;
    if find(walk, machine, at, true) {
        let slot = walk.interpreter.slot();
        walk.interpreter.lua.trace = at;
        walk.interpreter.lua.is_entered = 0;
        walk.interpreter.next[slot] = at;
        if machine.thread_pointer().is_some() {
            walk.interpreter.phase = phase::TAKING;
        }
        return Some(true);
    }
    (searched < SEARCHED).then_some(false)
}

/// Returns `true` if the frame of a loop is at an address, and prepares to take its Lua frames.
#[inline(always)]
fn find<M: Machine>(walk: &mut Walk, machine: &mut M, at: u64, is_trace: bool) -> bool {
    let is_compact = is_compact(walk);
    let layout = if is_compact { COMPACT.native_frame } else { WIDE.native_frame };
    let Some(word) = machine.read_stack(at.wrapping_add(layout.state)) else { return false };
    let address = if is_compact { halves(word)[0] } else { word };
    if address & 7 != 0 || address >> value::TAG_SHIFT != 0 || address == 0 {
        return false;
    }
    let Some(state) = State::read(machine, address, is_compact) else { return false };
    // A trace that is left calls functions by further frames of the loop.
    let is_innermost = state.native_frame & !3 == at || walk.interpreter.lua.before == at;
    let State { is_state, global, base, start, end, .. } = state;
    // Above the stack pointer the address could be another copy.
    let is_certain = !is_trace && walk.interpreter.lua.searched == 1;
    let is_found = is_certain || is_innermost || !M::VERIFIED && is_linked(walk, machine, at, is_compact);
    if !is_state || !is_found {
        return false;
    }
    let (top, pc) =
        if is_trace { trace(walk, machine, global, base) } else { innermost(walk, machine, at, base) };
    let top = if checked(machine, top, start, end, is_compact) { top } else { base };
    let results = machine.read_stack(at.wrapping_add(layout.results)).unwrap_or(0) as i32;
    let before = machine.read_stack(at.wrapping_add(native_frame::BEFORE)).unwrap_or(0) & !3;
    let lua = &mut walk.interpreter.lua;
    let mut found = lua.count;
    let mut index = 0;
    while index < STATES {
        if (index as u32) < lua.count && lua.states[index] == address {
            found = index as u32;
        }
        index += 1;
    }
    let index = found as usize & (STATES - 1);
    if found >= lua.count {
        lua.count = found + 1;
        lua.states[index] = address;
        lua.frames[index] = top.wrapping_sub(8);
    }
    lua.current = index as u32;
    // The first frame has no function.
    lua.bottom = start.wrapping_add(if is_compact { 0 } else { 8 });
    lua.pc = pc;
    lua.before = before;
    // A call of C by `lj_vm_cpcall` has frames only above the stack that was in use.
    let used = start.wrapping_sub(results as i64 as u64);
    if results < 0 && lua.frames[index] < used {
        lua.bottom = u64::MAX;
    }
    true
}

/// Returns `true` if an address is that of a frame by what the stack holds: memory of a state may be read later than the stack
/// was copied. The frame before it holds a state, too, and it returns to code of a file.
#[inline(always)]
fn is_linked<M: Machine>(walk: &Walk, machine: &mut M, at: u64, is_compact: bool) -> bool {
    let layout = if is_compact { COMPACT.native_frame } else { WIDE.native_frame };
    let before = machine.read_stack(at.wrapping_add(native_frame::BEFORE)).unwrap_or(u64::MAX) & !3;
    let is_above = before > at && before.wrapping_sub(at) < MAX_DISTANCE;
    let word = machine.read_stack(before.wrapping_add(layout.state)).unwrap_or(0);
    let state = if is_compact { halves(word)[0] } else { word };
    let has_state = State::read(machine, state, is_compact).is_some_and(|state| state.is_state);
    let returns = machine.read_stack(at.wrapping_add(native_frame::RETURN)).unwrap_or(0);
    let is_code =
        walk.mapping_of(machine, returns).is_some_and(|mapping| mapping.kind == mapping_kind::TABLE);
    is_code && (before == 0 || is_above && has_state)
}

/// Returns slot 0 of the innermost frame and its next instruction, for the loop whose frame is at an address.
#[inline(always)]
fn innermost<M: Machine>(walk: &Walk, machine: &mut M, at: u64, base: u64) -> (u64, u64) {
    let is_leaf = walk.flags & frame::EXACT != 0;
    let is_compact = is_compact(walk);
    let top = walk.register(if is_leaf { BASE } else { SAVED_BASE }).unwrap_or(base);
    if let Some((pc, instruction)) = linked(walk, machine, is_compact).filter(|_| is_leaf) {
        return (top.wrapping_sub(distance(instruction, is_compact)), pc);
    }
    let pc = match walk.register(PC) {
        Some(pc) if is_leaf && is_loading(walk, machine, is_compact) => pc.wrapping_add(INSTRUCTION),
        Some(pc) if is_leaf => pc,
        _ if is_compact => {
            halves(machine.read_stack(at.wrapping_add(COMPACT.native_frame.state)).unwrap_or(0))[1]
        }
        _ => machine.read_stack(at.wrapping_add(WIDE.native_frame.pc)).unwrap_or(0),
    };
    (top, pc)
}

/// Returns `true` if the loop is about to load an instruction, whose address is in [`PC`] already: behind a jump, that before
/// it belongs to other code.
///
/// ```text
///   mov    eax, [rbx]        8b 03
///   movzx  ecx, ah           0f b6 cc
///   movzx  ebp, al           0f b6 e8
///   add    rbx, 4            48 83 c3 04
/// ```
#[inline(always)]
fn is_loading<M: Machine>(walk: &Walk, machine: &mut M, is_compact: bool) -> bool {
    let at = walk.registers.pc & frame::ADDRESS;
    let low = machine.read_memory(at).unwrap_or(0);
    let high = machine.read_memory(at.wrapping_add(8)).unwrap_or(0);
    let (mask, advance) = if is_compact { (u32::MAX >> 8, COMPACT_ADVANCE) } else { (u32::MAX, ADVANCE) };
    let advances = |code: u64| code as u32 & mask == advance;
    let is_extension = low & 0xffff == EXTEND;
    advances(low)
        || is_extension && advances(low >> 24)
        || is_extension && advances(low >> 48 | high << 16)
        || low & 0xff == LOAD && advances(high)
}

/// Returns the address after the call and the instruction of the call, if the loop is about to write the link of the called
/// function's frame, whose slot 0 is in [`BASE`] already: `mov [rdx - 8], rbx` or `mov [rdx - 4], ebx`.
#[inline(always)]
fn linked<M: Machine>(walk: &Walk, machine: &mut M, is_compact: bool) -> Option<(u64, u64)> {
    let code = machine.read_memory(walk.registers.pc & frame::ADDRESS)?;
    let is_linking =
        if is_compact { code as u32 & (u32::MAX >> 8) == COMPACT_LINKING } else { code as u32 == LINKING };
    let pc = walk.register(PC).filter(|_| is_linking)?;
    Some((pc, machine.read_memory(pc.wrapping_sub(INSTRUCTION))?))
}

/// Returns slot 0 of the frame in which the running trace began, and the instruction behind its first one.
#[inline(always)]
fn trace<M: Machine>(walk: &Walk, machine: &mut M, global: u64, base: u64) -> (u64, u64) {
    let parameters = &walk.interpreter.parameters;
    let [base_at, number_at, traces_at] = [
        parameters[parameter::TRACE_BASE],
        parameters[parameter::TRACE_NUMBER],
        parameters[parameter::TRACES],
    ];
    if base_at == 0 {
        return (base, 0);
    }
    let is_compact = is_compact(walk);
    let layout = if is_compact { COMPACT } else { WIDE };
    let top = read_reference(machine, global.wrapping_add(base_at), is_compact).unwrap_or(base);
    let number = machine.read_memory(global.wrapping_add(number_at)).unwrap_or(u64::MAX) as u32;
    let traces = machine.read_memory(global.wrapping_add(traces_at)).unwrap_or(0);
    if number >> 16 != 0 {
        return (top, 0);
    }
    let at = traces.wrapping_add(number as u64 * layout.reference as u64);
    let trace = read_reference(machine, at, is_compact).unwrap_or(0);
    let start = read_reference(machine, trace.wrapping_add(layout.trace_start), is_compact).unwrap_or(0);
    (top, start.wrapping_add(INSTRUCTION))
}

/// Returns `true` if an address on a stack is slot 0 of a frame.
#[inline(always)]
fn checked<M: Machine>(machine: &mut M, base: u64, start: u64, end: u64, is_compact: bool) -> bool {
    let is_slot = base & 7 == 0 && base.wrapping_sub(start) <= end.wrapping_sub(start);
    is_slot && is_called(machine, base, is_compact)
}

/// Returns the distance to the caller's frame, from the instruction of the call.
#[inline(always)]
fn distance(instruction: u64, is_compact: bool) -> u64 {
    (instruction >> 8 & 0xff) * 8 + if is_compact { COMPACT.head } else { WIDE.head }
}

/// Returns `true` for a build with references of 4 bytes.
#[inline(always)]
fn is_compact(walk: &Walk) -> bool {
    walk.interpreter.parameters[parameter::IS_COMPACT] != 0
}

/// Returns the size of a prototype's instructions and its check. They are read once for consecutive frames of one prototype.
#[inline(always)]
fn prototype<M: Machine>(
    walk: &mut Walk,
    machine: &mut M,
    address: u64,
    is_compact: bool,
) -> Option<(u64, u32)> {
    if let Some(known) = walk.checked.get(address) {
        return Some((known >> 32, known as u32));
    }
    let Prototype { size, check } = Prototype::read(machine, address, is_compact)?;
    walk.checked.keep(address, size << 32 | check as u64);
    Some((size, check))
}

/// Emits the frame of a function, whose next instruction is at `pc`. `is_named` if the next frame is that of the caller,
/// whose instruction holds the name.
#[inline(always)]
fn emit<M: Machine>(walk: &mut Walk, machine: &mut M, called: u64, pc: u64, is_named: bool) -> Option<()> {
    let is_compact = is_compact(walk);
    let function = Function::read(machine, called, is_compact)?;
    if is_compact && function.kind == kind::STATE {
        return Some(());
    }
    if function.kind != kind::FUNCTION {
        return None;
    }
    let (address, shape, check, position) = if function.number == 0 {
        let address = function.prototype(is_compact);
        let (size, check) = prototype(walk, machine, address, is_compact)?;
        let distance = pc.wrapping_sub(INSTRUCTION).wrapping_sub(function.instructions);
        let position = if distance < size { (distance / INSTRUCTION) as u32 } else { NO_POSITION };
        (address, shape::LUA, check, position)
    } else {
        (called, shape::NATIVE, fold(&[function.native, 0, 0], 1), 0)
    };
    let interpreter = (walk.interpreter.slot() as u64) << frame::INTERPRETER_SHIFT;
    let address = address & value::ADDRESS | shape << frame::SHAPE_SHIFT;
    let named = if is_named { frame::NAMED_BY_CALLER } else { 0 };
    let detail = frame::DETAIL | named | (check as u64 & frame::CHECK) << 32 | position as u64;
    machine.push_interpreter_frame(frame::INTERPRETED | interpreter | address, detail);
    walk.taken += 1;
    walk.words += 2;
    walk.interpreter.taken += 1;
    Some(())
}

const _: () = assert!(STATES.is_power_of_two());
