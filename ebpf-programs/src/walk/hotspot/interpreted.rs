//! Frames of the interpreter.

use super::{emit_stub, enter, field16, is_frame, leave_stub, x86_64};
use crate::abi::hotspot::{flag, parameter, shape};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::machine::Machine;
use crate::walk::Walk;
use crate::walk::arch::Arch;
use crate::walk::identity::hotspot::{self as identity, Fields};

/// Number of bytes of a method, at most.
const MAX_BYTECODE: u64 = 0xffff;

/// Distance from the frame pointer down to the lowest slot that is read, and the number of bytes from there to the end of the
/// return address.
const SLOTS: (u64, u32) = (64, 80);

/// Words of the slots: next bytecode, `Method`, the caller's stack pointer, its frame pointer, the return address.
const BYTECODE: usize = 0;
const BYTECODE_OF_8: usize = 1;
const METHOD: usize = 5;
const SENDER_SP: usize = 7;
const SAVED_FP: usize = 8;
const RETURN_ADDRESS: usize = 9;

/// Emits the frame at `pc` in the interpreter and unwinds to its caller.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    let sp = walk.registers.values[A::SP];
    let fp = walk.registers.values[A::FP];
    let is_partial = walk.flags & frame::EXACT != 0 && fp.wrapping_sub(sp) < SLOTS.0;
    if is_partial {
        emit_stub(walk, machine, pc);
        return leave_partial::<A, M>(walk, machine, fp);
    }
    if is_between::<M>(walk, machine, sp, pc) || frame(walk, machine, sp, A::FP as u8).is_none() {
        // A method is being entered or left: the frame pointer is that of its caller, or of an interpreted one before that.
        emit_stub(walk, machine, pc);
        return leave_stub::<A, M>(walk, machine, pc);
    }
    // The caller's registers, which the search for the frame has left in the state.
    let [return_address, sender_sp, saved_fp] = walk.hotspot.caller;
    let frozen = &walk.hotspot.frozen;
    let (sender_sp, saved_fp) = (frozen.address(fp, sender_sp), frozen.address(fp, saved_fp));
    enter::<A>(walk, return_address, sender(sender_sp, fp), saved_fp, true)
}

/// Returns `true` if the innermost frame is not built yet, or left already: then the register for the bytecode holds the caller's
/// stack pointer or the return address.
#[inline(always)]
fn is_between<M: Machine>(walk: &Walk, machine: &mut M, sp: u64, pc: u64) -> bool {
    let register = walk.registers.values[x86_64::BYTECODE as usize];
    let is_exact = walk.flags & frame::EXACT != 0;
    is_exact && (is_frame(register, sp) || walk.is_java(register) || x86_64::is_return_popped(machine, pc))
}

/// Unwinds from a frame that is being built: it has a frame pointer, but not all slots. Its caller's stack pointer is in the
/// register that will hold the bytecode, and then in its slot.
#[inline(always)]
fn leave_partial<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, fp: u64) -> Result<bool, Stop> {
    let saved_fp = machine.read_stack(fp).ok_or(Stop::Unreadable)?;
    let return_address = machine.read_stack(fp.wrapping_add(8)).ok_or(Stop::Unreadable)?;
    let current = walk.registers.values[x86_64::BYTECODE as usize];
    let has_slot = fp.wrapping_sub(8) >= walk.registers.values[A::SP];
    let slot = if has_slot { machine.read_stack(fp.wrapping_sub(8)).ok_or(Stop::Unreadable)? } else { 0 };
    let end = fp.wrapping_add(16);
    let sp = if has_slot && is_frame(slot, end) { slot } else { sender(current, fp) };
    enter::<A>(walk, return_address, sp, saved_fp, true)
}

/// Returns the caller's stack pointer, the end of the frame if the given one is below it or far away.
#[inline(always)]
fn sender(sp: u64, fp: u64) -> u64 {
    let end = fp.wrapping_add(16);
    if is_frame(sp, end) { sp } else { end }
}

/// Emits the frame that the frame pointer leads to and keeps its caller; `None` if that is no frame of the interpreter.
#[inline(always)]
fn frame<M: Machine>(walk: &mut Walk, machine: &mut M, sp: u64, fp: u8) -> Option<()> {
    let fp = walk.register(fp).filter(|&fp| is_frame(fp, sp))?;
    let slots = machine.read_object(fp.wrapping_sub(SLOTS.0), SLOTS.1)?;
    let sizes = walk.parameter(parameter::SIZES);
    let is_8 = sizes >> 16 & flag::BYTECODE_IN_SLOT_7 != 0;
    let (stored, method) = (if is_8 { slots[BYTECODE_OF_8] } else { slots[BYTECODE] }, slots[METHOD]);
    walk.hotspot.caller = [slots[RETURN_ADDRESS], slots[SENDER_SP], slots[SAVED_FP]];
    let const_method = machine.read_memory(method.wrapping_add(field16(sizes, 3)))?;
    let start = const_method.wrapping_add(field16(sizes, 2));
    let current = if walk.flags & frame::EXACT != 0 { walk.register(x86_64::BYTECODE) } else { None };
    let current = current.unwrap_or(stored).wrapping_sub(start);
    let stored = if stored == 0 { 0 } else { stored.wrapping_sub(start) };
    // Code that the interpreter calls uses the register for other values. Native methods have no bytecode.
    let index = if current <= MAX_BYTECODE { current } else { stored };
    if index > MAX_BYTECODE {
        return None;
    }
    let check = check(walk, machine, const_method);
    walk.emit_runtime_frame(machine, shape::INTERPRETED, method, check, index as u32);
    Some(())
}

/// Returns the check of the method with a `ConstMethod`.
#[inline(always)]
fn check<M: Machine>(walk: &mut Walk, machine: &mut M, const_method: u64) -> u32 {
    if let Some(check) = walk.checked.get(const_method) {
        return check as u32;
    }
    let fields = [parameter::IDENTITY, parameter::IDENTITY + 1].map(|index| walk.parameter(index));
    let check = identity::method(machine, const_method, Fields::unpack(fields), &mut walk.checked.text);
    let check = check.unwrap_or(0);
    walk.checked.keep(const_method, check.into());
    check
}
