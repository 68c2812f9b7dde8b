//! Frames of HotSpot, the Java virtual machine: of its interpreter, of compiled methods and of stubs.
//!
//! ```text
//!   pc ──┬─ in the interpreter ──► interpreted   frame pointer ──► method, bytecode index, caller
//!        │
//!        ├─ in a code heap ──────► compiled      segment map ──► code blob ──► size of the frame ──► caller
//!        │
//!        └─ the return barrier ──► frozen        callers of a virtual thread that are in the heap
//! ```
//!
//! The stack grows down; one frame of each kind, and a call from native code:
//!
//! ```text
//!   interpreted                       compiled                        call stub
//!     fp + 8    return address          sp + size - 8  return address   fp + 8   return address (native)
//!     fp        caller's fp             sp + size - 16 caller's fp      fp       caller's fp
//!     fp - 8    caller's sp             …                               …
//!     fp - 24   Method                  sp
//!     fp - 64   next bytecode (Java 8: fp - 56)
//! ```
//!
//! The caller's stack pointer of an interpreted frame is a slot, because an adapter may have pushed arguments in between. The
//! next bytecode of the innermost frame is in a register.
//!
//! A frame is emitted as two words: its [shape] and its address, then a check and a position:
//!
//! | shape | address | check | position |
//! |---|---|---|---|
//! | interpreted | `Method` | address of its `ConstMethod` / 8 | bytecode index |
//! | compiled | code blob | `_compile_id`; of a stub the bytes there | distance from the blob |
//! | stub | program counter | 0 | 0 |
//!
//! Only x86_64 is supported: slots, registers and the code of prologues are those of its port.

mod compiled;

mod frozen;

mod interpreted;

mod x86_64;

use super::arch::{Arch, CallInstruction};
use super::{Caller, Walk};
use crate::abi::hotspot::{HEAPS, parameter, shape};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::machine::Machine;
use frozen::FrozenState;

/// State of a search that takes several steps.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HotSpotState {
    /// Segment reached, plus 1; 0 if no search is under way.
    segment: u64,
    /// Number of steps that the search took.
    steps: u64,
    /// Number of words that were searched for the return address of the current frame, which was emitted; 0 if no such search is
    /// under way.
    pushed: u64,
    /// Return address, stack pointer and frame pointer of the caller of an interpreted frame.
    caller: [u64; 3],
    /// Position in the heap, for a virtual thread.
    frozen: FrozenState,
}

impl HotSpotState {
    /// Resets the state of a previous walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        (self.segment, self.pushed) = (0, 0);
        self.frozen.begin();
    }

    /// Moves the search for a return address to the next word. Returns `false` if that was the last one.
    #[inline(always)]
    fn search_on(&mut self) -> bool {
        let next = self.pushed + 1;
        self.pushed = if next < PUSHED { next } else { 0 };
        next < PUSHED
    }
}

/// Emits the frame at `pc` and unwinds to its caller. Returns `false` if the caller is unknown.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    if frozen::is_border(walk, pc) {
        return frozen::step::<A, M>(walk, machine);
    }
    if walk.is_interpreter(pc) {
        interpreted::step::<A, M>(walk, machine, pc)
    } else {
        compiled::step::<A, M>(walk, machine, pc)
    }
}

/// Enters the caller at a return address, with its registers.
#[inline(always)]
fn enter<A: Arch>(
    walk: &mut Walk,
    return_address: u64,
    sp: u64,
    fp: u64,
    is_fp_known: bool,
) -> Result<bool, Stop> {
    let pc = walk.hotspot.frozen.return_address(return_address);
    if pc == 0 {
        // Java's outermost frames return to a stub.
        return Err(Stop::Implausible);
    }
    walk.enter_caller::<A>(&Caller { pc, sp, fp, is_fp_known, kept: None, flags: 0 })?;
    Ok(true)
}

/// Emits a frame of a stub, unless the search for its return address goes on.
#[inline(always)]
fn emit_stub<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    if walk.hotspot.pushed == 0 {
        walk.emit_runtime_frame(machine, shape::STUB, pc, 0, 0);
    }
}

/// Unwinds from a stub at `pc`, whose frame was emitted.
///
/// Many stubs have no frame, or set one up by the frame pointer; callers use that register for other values. The word at the
/// stack pointer is a saved register, or a return address into code of the same kind.
#[inline(always)]
fn leave_stub<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    let sp = walk.registers.values[A::SP];
    let is_exact = walk.flags & frame::EXACT != 0;
    let (fp, is_fp_known) = super::native::known(walk.register(A::FP as u8));
    if is_exact {
        let word = machine.read_stack(sp).ok_or(Stop::Unreadable)?;
        let is_pushed = A::prologue(machine, pc) == Some(8);
        if is_pushed || word == COOKIE {
            let (fp, is_fp_known) = if is_pushed { (word, true) } else { (fp, is_fp_known) };
            let (at, return_address) = above_cookie(machine, sp.wrapping_add(8))?;
            let sp = sender(walk, at.wrapping_add(8), return_address, pc);
            return enter::<A>(walk, return_address, sp, fp, is_fp_known);
        }
        if x86_64::is_return_in_register(machine, pc) {
            let return_address = walk.registers.values[x86_64::RETURN_ADDRESS as usize];
            return enter::<A>(walk, return_address, sp, fp, is_fp_known);
        }
        if let Some(return_address) = taken::<A, M>(walk, machine, word, pc) {
            return enter::<A>(walk, return_address, sender(walk, sp, return_address, pc), fp, is_fp_known);
        }
        if let Some(return_address) = given_back(walk, machine, word, pc) {
            let caller = walk.registers.values[x86_64::CALLER_SP as usize];
            let sp = if is_close(walk, caller, sp, pc) { caller } else { sp };
            return enter::<A>(walk, return_address, sp, fp, is_fp_known);
        }
        if walk.is_java(word) {
            let sp = sender(walk, sp.wrapping_add(8), word, pc);
            return enter::<A>(walk, word, sp, fp, is_fp_known);
        }
        if let Some(at) = caller_of_stub::<A, M>(walk, machine, sp, pc) {
            if at == 0 {
                return Ok(true);
            }
            let return_address = machine.read_stack(at).ok_or(Stop::Unreadable)?;
            let place = at.wrapping_sub(8);
            let below = if at == sp { 0 } else { machine.read_stack(place).ok_or(Stop::Unreadable)? };
            // The stub has saved it, or uses it for other values.
            let is_saved = fp == place || !is_frame(fp, at) && is_frame(below, at);
            let fp = if is_saved { below } else { fp };
            return enter::<A>(walk, return_address, at.wrapping_add(8), fp, is_fp_known);
        }
    }
    if !is_frame(fp, sp) || !is_fp_known {
        return Ok(false);
    }
    // In the order in which the next step reads.
    let saved = machine.read_stack(fp).ok_or(Stop::Unreadable)?;
    let (at, return_address) = above_cookie(machine, fp.wrapping_add(8))?;
    enter::<A>(walk, return_address, at.wrapping_add(8), saved, true)
}

/// Returns the return address in the register for it, if `word` at the stack pointer is another one, and the stack pointer of the
/// caller is in the other register. An adapter and the interpreter take it from the stack while they make room for arguments and local
/// variables; words there may be anything, old return addresses too.
///
/// ```text
///   pop %rax; mov %rsp,%r13; sub $n,%rsp; mov %rax,(%rsp)      lea 8(%rsp),%r13; pop %rax; sub $n,%rsp; push %rax
/// ```
#[inline(always)]
fn taken<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, word: u64, pc: u64) -> Option<u64> {
    let return_address = walk.registers.values[x86_64::RETURN_ADDRESS as usize];
    let sp = walk.registers.values[x86_64::BYTECODE as usize];
    let is_taken = word != return_address && is_close(walk, sp, walk.registers.values[A::SP], pc);
    // In other stubs the registers may have any values.
    let is_return = is_taken
        && walk.is_java(return_address)
        && !matches!(A::call_before(machine, return_address), CallInstruction::None);
    is_return.then_some(return_address)
}

/// Returns the return address that the interpreter has in the register for the bytecode when it leaves a method, or takes from the
/// stack into it, where it is `word`.
///
/// ```text
///   leave; pop %r13; mov %rbx,%rsp; jmp *%r13
/// ```
#[inline(always)]
fn given_back<M: Machine>(walk: &Walk, machine: &mut M, word: u64, pc: u64) -> Option<u64> {
    if !walk.is_interpreter(pc) {
        return None;
    }
    let is_popped = x86_64::is_return_popped(machine, pc);
    let return_address = if is_popped { word } else { walk.registers.values[x86_64::BYTECODE as usize] };
    walk.is_java(return_address).then_some(return_address)
}

/// Returns `true` if the stack pointer of a caller is at or above `end`, with the arguments at most, or with the local variables if the
/// interpreter makes room for them.
#[inline(always)]
fn is_close(walk: &Walk, sp: u64, end: u64, pc: u64) -> bool {
    /// Maximum number of bytes of arguments: the register is one for any value in compiled code.
    const MAX_ARGUMENTS: u64 = 16 * 8;
    /// Maximum number of bytes of local variables.
    const MAX_LOCALS: u64 = (1 << 16) * 8;
    let most = if walk.is_interpreter(pc) { MAX_LOCALS } else { MAX_ARGUMENTS };
    sp & 7 == 0 && sp.wrapping_sub(end) <= most
}

/// Returns the stack pointer of the innermost frame's caller: that in the register for it, if that is at or above `end` and close to
/// it. Adapters move arguments to the stack before the interpreter builds its frame.
///
/// In other stubs the register may still hold the stack pointer of the interpreted method that called the stub's caller. Only
/// adapters and the interpreter's entries have the return address in a register, too.
#[inline(always)]
fn sender(walk: &Walk, end: u64, return_address: u64, pc: u64) -> u64 {
    let sp = walk.registers.values[x86_64::BYTECODE as usize];
    let is_current = walk.registers.values[x86_64::RETURN_ADDRESS as usize] == return_address;
    let is_known = walk.registers.known >> x86_64::BYTECODE & 1 != 0;
    if is_known && is_current && is_close(walk, sp, end, pc) { sp } else { end }
}

/// Number of words that a stub or compiled code may have pushed.
const PUSHED: u64 = 9;

/// Returns the place of the return address of a stub that has pushed registers: the first one after a call to it, or in native code
/// after any call. 0 if the search goes on in the next step, `None` if there is none.
#[inline(always)]
fn caller_of_stub<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, sp: u64, pc: u64) -> Option<u64> {
    /// Maximum distance from the start of a stub.
    const MAX_STUB: u64 = 1 << 13;
    /// Bytes above the stack pointer that are the stack.
    const NEAR: u64 = 1 << 16;
    let at = sp.wrapping_add(walk.hotspot.pushed * 8);
    let word = machine.read_stack(at).unwrap_or(0);
    // A pushed register often points to the stack, where words may look like call instructions: the bytes ff 93 of an address.
    let is_caller = word.wrapping_sub(sp) >= NEAR
        && match A::call_before(machine, word) {
            CallInstruction::Direct(entry) => {
                pc.wrapping_sub(entry) < MAX_STUB || !walk.is_java(word) && !walk.is_java(entry)
            }
            CallInstruction::Indirect => !walk.is_java(word),
            CallInstruction::None => false,
        };
    if is_caller {
        walk.hotspot.pushed = 0;
        return Some(at);
    }
    walk.hotspot.search_on().then_some(0)
}

/// A word that the barrier at the entry of compiled methods pushes below its return address.
const COOKIE: u64 = u64::MAX;

/// Returns the place of the return address, `at` or the word above it if the barrier's is there, and the address.
#[inline(always)]
fn above_cookie<M: Machine>(machine: &mut M, at: u64) -> Result<(u64, u64), Stop> {
    let word = machine.read_stack(at).ok_or(Stop::Unreadable)?;
    if word != COOKIE {
        return Ok((at, word));
    }
    let at = at.wrapping_add(8);
    Ok((at, machine.read_stack(at).ok_or(Stop::Unreadable)?))
}

/// Returns `true` if a frame pointer is plausible.
#[inline(always)]
fn is_frame(fp: u64, sp: u64) -> bool {
    /// Maximum size of a frame, in bytes.
    const MAX_FRAME: u64 = 1 << 20;
    fp & 7 == 0 && fp.wrapping_sub(sp) < MAX_FRAME
}

impl Walk {
    /// Returns a parameter of the current mapping's walker.
    #[inline(always)]
    fn parameter(&self, index: usize) -> u64 {
        self.interpreter.parameters[index]
    }

    /// Returns `true` if an address lies in the interpreter.
    #[inline(always)]
    fn is_interpreter(&self, address: u64) -> bool {
        let start = self.parameter(parameter::INTERPRETER_START);
        address.wrapping_sub(start) < self.parameter(parameter::INTERPRETER_END).wrapping_sub(start)
    }

    /// Returns `true` if an address lies in a code heap.
    #[inline(always)]
    fn is_java(&self, address: u64) -> bool {
        let mut is_inside = false;
        let mut index = 0;
        while index < HEAPS {
            let start = self.parameter(parameter::HEAP + 3 * index);
            let size = self.parameter(parameter::HEAP + 3 * index + 1).wrapping_sub(start);
            is_inside |= address.wrapping_sub(start) < size;
            index += 1;
        }
        is_inside
    }
}

/// Returns field `index` of 16 bits.
#[inline(always)]
fn field16(word: u64, index: u32) -> u64 {
    word >> (index * 16) & 0xffff
}
