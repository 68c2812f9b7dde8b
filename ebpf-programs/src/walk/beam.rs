//! Frames of BEAM's compiled code; see [`abi::beam`](crate::abi::beam).
//!
//! ```text
//!   START ──► cached, or MODULES ──► FUNCTIONS ──► FOUND ──► UNWIND ──► CALLER: on the stack of a process
//!             binary searches, some probes a step    │                   │
//!             emits the frame ◄──────────────────────┘                   └──► ROOT: the thread's stack, behind process_main
//! ```
//!
//! Words on the stack of a process are terms and return addresses. The low two bits of a return
//! address are 0, and those of no term: so the next return address is the caller's. Return
//! addresses of calls to shared fragments may have other bits; they are at the stack pointer.
//!
//! Code that calls a function in C saves the stack pointer in the process, or in the frame pointer,
//! and changes to the thread's stack: the next instructions show where it is saved.

use super::arch::{Arch, CallInstruction};
use super::identity::beam::{self as identity, Locations};
use super::{Caller, Walk, is_null};
use crate::abi::beam::{JUMP_OPCODE, JUMP_SIZE, MAX_COUNT, parameter, shape};
use crate::abi::interpreter::HOPS;
use crate::abi::mapping::kind;
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::abi::table::Rule;
use crate::machine::Machine;

/// State of the walker.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BeamState {
    /// One of [`phase`].
    phase: u32,
    /// 1 if the current frame is on the stack of a process.
    is_inside: u32,
    /// 1 if the current frame is a shared fragment.
    is_fragment: u32,
    /// Number of steps towards the caller of the current frame.
    steps: u32,
    /// First and last index of a search.
    first: u64,
    last: u64,
    /// The array that is searched.
    array: u64,
    /// Header of the module that was found.
    header: u64,
    /// Function that was found; 0 for none.
    info: u64,
    /// Its check.
    check: u64,
    /// Address of the scheduler's registers; 0 if it is unknown.
    block: u64,
}

/// Operations of the next step.
mod phase {
    /// Looks at a new frame.
    pub(super) const START: u32 = 0;
    /// Searches the table of modules.
    pub(super) const MODULES: u32 = 1;
    /// Searches the functions of a module.
    pub(super) const FUNCTIONS: u32 = 2;
    /// Emits the function that was found.
    pub(super) const FOUND: u32 = 3;
    /// Emits code whose function isn't readable.
    pub(super) const UNREADABLE: u32 = 4;
    /// Changes to the stack of the process.
    pub(super) const UNWIND: u32 = 5;
    /// Searches the stack for the return address.
    pub(super) const CALLER: u32 = 6;
    /// Continues at the caller of `process_main`.
    pub(super) const ROOT: u32 = 7;
    /// Emits a jump to a shared fragment.
    pub(super) const JUMP: u32 = 8;
}

/// Number of probes of a search in one step.
const PROBES: u32 = 4;

/// Words of the stack that are read in one step.
const WORDS: usize = 8;

/// Maximum number of steps to the caller of one frame: 1,024 words and some.
const MAX_STEPS: u32 = 160;

/// Maximum number of bytes that compiled code puts on the thread's stack before it calls a function
/// in C.
const MAX_PUSHED: u64 = 256;

impl BeamState {
    /// Resets the state of a previous walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.phase = phase::START;
        self.is_inside = 0;
        self.block = 0;
    }

    #[inline(always)]
    fn search(&mut self, phase: u32, array: u64, count: u64) {
        (self.phase, self.array, self.first, self.last) = (phase, array, 0, count);
    }
}

/// Takes a step at the frame at `pc`.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    match walk.beam.phase {
        phase::START => start::<A, M>(walk, machine, pc),
        phase::MODULES | phase::FUNCTIONS => search(walk, machine, pc),
        phase::FOUND => found::<A, M>(walk, machine, pc),
        phase::UNREADABLE | phase::JUMP => {
            walk.beam.is_fragment = (walk.beam.phase == phase::JUMP) as u32;
            let check = identity::code(machine, pc, 0).unwrap_or(0);
            walk.emit_runtime_frame(machine, shape::ADDRESS, pc, check, 0);
            walk.beam.phase = phase::UNWIND;
        }
        phase::UNWIND => unwind::<A, M>(walk, machine, pc),
        phase::CALLER => caller::<A, M>(walk, machine)?,
        _ => root::<A, M>(walk, machine)?,
    }
    // Most frames take one step.
    if walk.beam.phase == phase::UNWIND && walk.beam.is_inside != 0 {
        walk.beam.phase = phase::CALLER;
        walk.beam.steps = 0;
        caller::<A, M>(walk, machine)?;
    }
    Ok(true)
}

#[inline(always)]
fn parameter(walk: &Walk, index: usize) -> u64 {
    walk.interpreter.parameters[index]
}

/// Emits the frame at `pc` if its function is cached, or begins to search for it.
#[inline(always)]
fn start<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    walk.beam.is_fragment = 0;
    if walk.flags & frame::EXACT != 0 {
        walk.beam.is_inside = 0;
    }
    let start = parameter(walk, parameter::MAIN);
    if pc.wrapping_sub(start) < parameter(walk, parameter::MAIN_END).wrapping_sub(start) {
        walk.emit_runtime_frame(machine, shape::MAIN, start, 0, 0);
        walk.beam.block = if walk.flags & frame::EXACT == 0 { walk.registers.values[A::SP] } else { 0 };
        walk.beam.phase = phase::ROOT;
        return;
    }
    if let Some(known) = walk.checked.get(pc) {
        let position = known as u32 as u64;
        let info = pc.wrapping_sub(position);
        walk.emit_runtime_frame(machine, shape::FUNCTION, info, (known >> 32) as u32, position as u32);
        walk.beam.phase = phase::UNWIND;
        return;
    }
    if let Some((info, check)) = cached(walk, machine, pc) {
        return emit(walk, machine, pc, info, check);
    }
    let (ranges, active) = (parameter(walk, parameter::RANGES), parameter(walk, parameter::ACTIVE));
    match identity::modules(machine, ranges, active) {
        Some((modules, count)) => walk.beam.search(phase::MODULES, modules, count),
        None => walk.beam.phase = phase::UNREADABLE,
    }
}

/// Takes some probes of a binary search for the module or the function that covers `pc`.
#[inline(always)]
fn search<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    let is_module = walk.beam.phase == phase::MODULES;
    let stride = if is_module { 16 } else { 8 };
    let mut probe = 0;
    while probe < PROBES {
        let (first, last) = (walk.beam.first, walk.beam.last);
        if first >= last {
            walk.beam.info = 0;
            walk.beam.phase = phase::FOUND;
            return;
        }
        let middle = (first + last) / 2;
        let at = walk.beam.array.wrapping_add(middle * stride);
        let Some([start, end]) = machine.read_object(at, 16).map(|words| [words[0], words[1]]) else {
            walk.beam.phase = phase::UNREADABLE;
            return;
        };
        if pc < start {
            walk.beam.last = middle;
        } else if pc >= end {
            walk.beam.first = middle + 1;
        } else {
            if is_module {
                enter_module(walk, machine, start);
            } else if is_jump(walk, machine, pc, end) {
                walk.beam.phase = phase::JUMP;
            } else {
                read(walk, machine, pc, middle, start);
            }
            return;
        }
        probe += 1;
    }
}

/// Begins to search the functions of a module.
#[inline(always)]
fn enter_module<M: Machine>(walk: &mut Walk, machine: &mut M, header: u64) {
    walk.beam.header = header;
    match machine.read_memory(header) {
        Some(count) if count < MAX_COUNT => {
            let array = header.wrapping_add(parameter(walk, parameter::FUNCTIONS));
            walk.beam.search(phase::FUNCTIONS, array, count);
        }
        _ => walk.beam.phase = phase::UNREADABLE,
    }
}

/// Returns `true` if `pc` may be at one of the jumps to shared fragments behind the last function of a
/// module: they end where that function seems to, at `end`. The call of such a jump has its return
/// address at the stack pointer, as that of a fragment has.
#[inline(always)]
fn is_jump<M: Machine>(walk: &Walk, machine: &mut M, pc: u64, end: u64) -> bool {
    walk.flags & frame::EXACT != 0
        && end.wrapping_sub(pc).is_multiple_of(JUMP_SIZE)
        && machine.read_memory(pc).is_some_and(|code| code & 0xffff == JUMP_OPCODE)
}

/// Reads the function at `info`, number `index` of its module, and caches it.
#[inline(always)]
fn read<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64, index: u64, info: u64) {
    walk.beam.phase = phase::UNREADABLE;
    // Without readable locations the check covers the name alone.
    let locations = Locations::read(machine, walk.beam.header, index).unwrap_or_default();
    let Some(check) = identity::function(machine, info, locations) else { return };
    let Some(proof) = identity::code(machine, pc, check as u64) else { return };
    let rule = Rule {
        cfa: locations.size as u8,
        register: proof as u8,
        ra: (proof >> 8) as u8,
        fp: (proof >> 16) as u8,
        offset: info as i32,
        aux: locations.address as i32,
        fp_offset: ((info >> 32 & 0xffff) | (locations.address >> 32 & 0xffff) << 16) as i32,
    };
    machine.cache_rule(walk.process.mappings | CACHED, pc, &rule);
    (walk.beam.info, walk.beam.check) = (info, check as u64);
    walk.beam.phase = phase::FOUND;
}

/// Number of no table; the cache of rules holds functions under it, for each process.
const CACHED: u32 = 1 << 31;

/// Returns the function that was cached for an address and its check, if its memory and the code
/// are the same.
#[inline(always)]
fn cached<M: Machine>(walk: &Walk, machine: &mut M, pc: u64) -> Option<(u64, u32)> {
    let rule = machine.cached_rule(walk.process.mappings | CACHED, pc)?;
    let high = rule.fp_offset as u32 as u64;
    let info = rule.offset as u32 as u64 | (high & 0xffff) << 32;
    let locations = Locations { address: rule.aux as u32 as u64 | high >> 16 << 32, size: rule.cfa as u64 };
    let check = identity::function(machine, info, locations)?;
    let proof = rule.register as u32 | (rule.ra as u32) << 8 | (rule.fp as u32) << 16;
    (identity::code(machine, pc, check as u64)? == proof).then_some((info, check))
}

/// Emits a function.
#[inline(always)]
fn emit<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64, info: u64, check: u32) {
    let position = pc.wrapping_sub(info) as u32;
    walk.checked.keep(pc, (check as u64) << 32 | position as u64);
    walk.emit_runtime_frame(machine, shape::FUNCTION, info, check, position);
    walk.beam.phase = phase::UNWIND;
}

/// Emits the function that a search found, or a shared fragment.
#[inline(always)]
fn found<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    if walk.beam.info != 0 {
        return emit(walk, machine, pc, walk.beam.info, walk.beam.check as u32);
    }
    let is_return = walk.beam.is_inside != 0 && walk.flags & frame::EXACT == 0;
    if is_return
        && parameter(walk, parameter::NORMAL_EXIT) == 0
        && A::call_before(machine, pc.wrapping_add(1)) == CallInstruction::None
    {
        walk.beam.phase = phase::ROOT;
        return;
    }
    walk.beam.is_fragment = 1;
    walk.emit_runtime_frame(machine, shape::FRAGMENT, pc & !4095, 0, 0);
    walk.beam.phase = phase::UNWIND;
}

/// Returns the data of the thread's scheduler.
#[inline(always)]
fn scheduler<M: Machine>(walk: &Walk, machine: &mut M) -> Option<u64> {
    let mut at = machine.thread_pointer()?;
    let path = &walk.interpreter.loaded.top;
    let mut hop = 0;
    while hop < HOPS {
        if (hop as u32) < path.hops {
            at = machine.read_memory(at.wrapping_add(path.offsets[hop] as u64))?;
        }
        hop += 1;
    }
    if is_null(at) { None } else { Some(at) }
}

/// Changes to the stack of the process, if the current frame is not on it.
#[inline(always)]
fn unwind<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    let sp = walk.registers.values[A::SP];
    let is_exact = walk.flags & frame::EXACT != 0;
    let block = match walk.register(A::BEAM_REGISTERS as u8) {
        _ if !is_exact => sp,
        Some(registers) => registers.wrapping_sub(parameter(walk, parameter::REGISTERS)),
        None => 0,
    };
    walk.beam.block = block;
    walk.beam.is_inside = 1;
    if block.wrapping_sub(sp) > MAX_PUSHED {
        return;
    }
    let stack = if A::returns_to_fp(machine, pc.wrapping_add(if is_exact { 0 } else { 1 })) {
        walk.register(A::FP as u8).filter(|_| machine.thread_pointer().is_some())
    } else {
        stack_of_process(walk, machine)
    };
    match stack {
        Some(stack) if stack & 7 == 0 => walk.registers.values[A::SP] = stack,
        _ => unreadable(walk, machine),
    }
}

/// Returns the stack pointer that the current process of the thread's scheduler has saved.
#[inline(always)]
fn stack_of_process<M: Machine>(walk: &Walk, machine: &mut M) -> Option<u64> {
    let scheduler = scheduler(walk, machine)?;
    let process = machine.read_memory(scheduler.wrapping_add(parameter(walk, parameter::CURRENT)))?;
    if is_null(process) {
        return None;
    }
    machine.read_memory(process.wrapping_add(parameter(walk, parameter::STOP)))
}

/// Marks the frames of the process as missing.
#[inline(always)]
fn unreadable<M: Machine>(walk: &mut Walk, machine: &mut M) {
    walk.emit_runtime_frame(machine, 0, 0, 0, 0);
    walk.beam.phase = phase::ROOT;
    walk.beam.is_inside = 0;
}

/// Searches some words of the stack for the return address, and continues at the caller if it is
/// there.
#[inline(always)]
fn caller<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Result<(), Stop> {
    let sp = walk.registers.values[A::SP];
    walk.beam.steps += 1;
    if walk.beam.steps > MAX_STEPS {
        unreadable(walk, machine);
        return Ok(());
    }
    let Some((first, mut found)) = look(machine, sp) else {
        unreadable(walk, machine);
        return Ok(());
    };
    if walk.beam.is_fragment != 0
        && walk.beam.steps == 1
        && walk.is_in_mapping(first)
        && A::call_before(machine, first) != CallInstruction::None
    {
        found = Word { value: first, end: 8 };
    }
    let (target, above) = (found.value, sp.wrapping_add(found.end));
    if target == 0 {
        walk.registers.values[A::SP] = above;
        return Ok(());
    }
    if target == parameter(walk, parameter::NORMAL_EXIT) {
        walk.beam.phase = phase::ROOT;
        return Ok(());
    }
    let number = walk.mapping.interpreter;
    let is_code = match walk.mapping_of(machine, target.wrapping_sub(1)) {
        Some(mapping) => mapping.kind == kind::RUNTIME && mapping.interpreter == number,
        None => false,
    };
    if !is_code {
        // A saved frame pointer.
        walk.registers.values[A::SP] = above;
        return Ok(());
    }
    walk.beam.phase = phase::START;
    let block = walk.beam.block;
    walk.enter_caller::<A>(&Caller {
        pc: target,
        sp: above,
        fp: 0,
        is_fp_known: false,
        kept: None,
        flags: 0,
    })?;
    walk.beam.block = block;
    Ok(())
}

/// A word of the stack.
struct Word {
    /// Its value; 0 if none of the words may be a return address.
    value: u64,
    /// Distance of its end from the stack pointer.
    end: u64,
}

/// Returns the first word at `sp`, and the first of some words that may be a return address.
#[inline(always)]
fn look<M: Machine>(machine: &mut M, sp: u64) -> Option<(u64, Word)> {
    let Some(words) = machine.read_frame(sp, WORDS as u32 * 8) else {
        // The last words of a mapping.
        let word = machine.read_stack(sp)?;
        return Some((word, Word { value: word * is_return(word), end: 8 }));
    };
    let (mut mask, mut index) = (0u64, 0);
    while index < WORDS {
        mask |= is_return(words[index]) << index;
        index += 1;
    }
    if mask == 0 {
        return Some((words[0], Word { value: 0, end: WORDS as u64 * 8 }));
    }
    let index = lowest(mask);
    Some((words[0], Word { value: words[index as usize & (WORDS - 1)], end: index * 8 + 8 }))
}

/// Returns 1 if a word may be a return address, else 0, without a branch.
#[inline(always)]
fn is_return(word: u64) -> u64 {
    let is_aligned = (word & 3).wrapping_sub(1) >> 63;
    let is_far = 0u64.wrapping_sub(word >> 12) >> 63;
    is_aligned & is_far
}

/// Returns the index of the lowest bit of a mask of eight bits that isn't 0, without a branch.
#[inline(always)]
fn lowest(mask: u64) -> u64 {
    let below = (mask & mask.wrapping_neg()).wrapping_sub(1);
    let pairs = (below & 0x55) + (below >> 1 & 0x55);
    let fours = (pairs & 0x33) + (pairs >> 2 & 0x33);
    (fours & 7) + (fours >> 4 & 7)
}

/// Continues at the caller of `process_main`, on the stack of the thread.
#[inline(always)]
fn root<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Result<(), Stop> {
    let mut block = walk.beam.block;
    if block == 0 {
        let scheduler = scheduler(walk, machine).ok_or(Stop::Coroutine)?;
        block = machine.read_memory(scheduler).ok_or(Stop::Unreadable)?;
    }
    let at = block.wrapping_add(parameter(walk, parameter::ROOT));
    let pc = machine.read_stack(at).ok_or(Stop::Unreadable)?;
    if A::call_before(machine, pc) == CallInstruction::None {
        return Err(Stop::Implausible);
    }
    walk.beam.phase = phase::START;
    walk.beam.is_inside = 0;
    let sp = at.wrapping_add(8);
    walk.enter_caller::<A>(&Caller { pc, sp, fp: 0, is_fp_known: false, kept: None, flags: 0 })
}

#[cfg(test)]
mod tests;

#[test]
fn finds_return_addresses() {
    assert_eq!(
        [0, 8, 4095, 4096, 0x7f00_1234, 0x7f00_1235, 0x7f00_1236].map(is_return),
        [0, 0, 0, 1, 1, 0, 0]
    );
    for bit in 0..8 {
        assert_eq!(lowest(1 << bit | 0x80), bit);
    }
}
