//! Callers of methods, and of code that the runtime generates.

use super::codes::{
    CACHED, HAS_SAVED_FP, IS_BEHIND_PROLOGUE, IS_HANDLER, IS_MISPLACED, IS_NEAR_PROLOGUE, PROOF_METHOD,
    SAVES_FP, SETS_FP,
};
use super::{hijack, parameter, phase};
use crate::abi::dotnet::{parameter, shape};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::abi::table::Rule;
use crate::machine::Machine;
use crate::walk::arch::{Arch, CallInstruction};
use crate::walk::frame_pointer::is_frame;
use crate::walk::identity::dotnet as identity;
use crate::walk::native::known;
use crate::walk::{Caller, Walk};

/// Returns the rule that was cached for an address, if the code and its method are the same.
#[inline(always)]
pub(super) fn cached<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Option<Rule> {
    let rule = machine.cached_rule(walk.process.mappings | CACHED, pc)?;
    let proof = rule.register as u32 | (rule.ra as u32) << 8 | (rule.fp as u32) << 16;
    if identity::code(machine, pc, rule.aux as u32 as u64)? != proof {
        return None;
    }
    if rule.cfa & PROOF_METHOD == 0 {
        return Some(rule);
    }
    let start = pc.wrapping_sub(rule.fp_offset as u32 as u64);
    let check = match walk.checked.get(start) {
        Some(check) => check as u32,
        None => {
            let name = parameter(walk, parameter::DYNAMIC_NAME);
            let method = identity::method(machine, start, name)?;
            walk.checked.keep(start, method.check as u64);
            method.check
        }
    };
    (check == rule.aux as u32).then_some(rule)
}

/// Emits the frame and unwinds to its caller.
#[inline(always)]
pub(super) fn unwind<A: Arch, M: Machine>(
    walk: &mut Walk,
    machine: &mut M,
    pc: u64,
    rule: &Rule,
) -> Result<bool, Stop> {
    walk.dotnet.phase = phase::START;
    let is_method = rule.cfa & PROOF_METHOD != 0;
    let position = rule.fp_offset as u32;
    let start = pc.wrapping_sub(position as u64);
    let shape = if is_method { shape::METHOD } else { shape::PRECOMPILED };
    walk.emit_runtime_frame(machine, shape, start, rule.aux as u32, position);
    let caller = caller::<A, M>(walk, machine, pc, rule)?;
    let Some(caller) = caller else { return Ok(false) };
    if hijack::is_hijacked(walk, caller.pc) {
        hijack::begin(walk, &caller);
        return Ok(true);
    }
    walk.enter_caller::<A>(&caller)?;
    Ok(true)
}

/// Returns the registers of the caller; `None` if they are unknown.
#[inline(always)]
fn caller<A: Arch, M: Machine>(
    walk: &Walk,
    machine: &mut M,
    pc: u64,
    rule: &Rule,
) -> Result<Option<Caller>, Stop> {
    let flags = rule.cfa as u64;
    let sp = walk.registers.values[A::SP];
    let (fp, is_fp_known) = known(walk.register(A::FP as u8));
    let is_behind = flags & IS_BEHIND_PROLOGUE != 0;
    let is_exact = walk.flags & frame::EXACT != 0;
    let saves_fp = flags & SAVES_FP != 0;
    let popped = if is_exact && is_behind { A::bytes_to_return(machine, pc, saves_fp) } else { None };
    let offset = rule.offset as i64 as u64;
    // The canonical frame address; below it are the return address and the saved frame pointer.
    let mut cfa = sp.wrapping_add(8).wrapping_add(popped.unwrap_or(offset));
    let mut is_saved = if is_behind { saves_fp } else { flags & HAS_SAVED_FP != 0 };
    if let Some(popped) = popped {
        is_saved &= popped != 0;
    } else if is_behind && flags & SETS_FP != 0 {
        if !is_fp_known || !is_frame(fp, sp) {
            return Ok(None);
        }
        cfa = fp.wrapping_add(offset);
    } else if is_behind && is_fp_known && !(is_exact && flags & IS_NEAR_PROLOGUE != 0) {
        let own = cfa.wrapping_sub(16);
        let is_handler = saves_fp && fp != own || flags & IS_HANDLER != 0;
        if is_handler && is_frame(fp, own) {
            cfa = fp.wrapping_add(16);
            is_saved = true;
        }
    }
    let mut caller = Caller { pc: 0, sp: cfa, fp, is_fp_known, kept: None, flags: 0 };
    // In the order in which the next step reads.
    if is_saved {
        caller.fp = machine.read_stack(cfa.wrapping_sub(16)).ok_or(Stop::Unreadable)?;
        caller.is_fp_known = flags & IS_MISPLACED == 0;
    }
    caller.pc = machine.read_stack(cfa.wrapping_sub(8)).ok_or(Stop::Unreadable)?;
    Ok(Some(caller))
}

/// Emits code that the runtime generates, and unwinds to its caller if the return address is at the stack pointer. Other memory of the
/// process is left to guesses.
#[inline(always)]
pub(super) fn stub<A: Arch, M: Machine>(
    walk: &mut Walk,
    machine: &mut M,
    pc: u64,
    is_known: bool,
) -> Result<bool, Stop> {
    walk.dotnet.phase = phase::START;
    if is_known {
        walk.emit_runtime_frame(machine, shape::STUB, pc & !4095, 0, 0);
    } else {
        walk.emit_native(machine, pc);
    }
    if walk.flags & frame::EXACT == 0 {
        return Ok(false);
    }
    let sp = walk.registers.values[A::SP];
    let pc = machine.read_stack(sp).ok_or(Stop::Unreadable)?;
    if A::call_before(machine, pc) == CallInstruction::None {
        return Ok(false);
    }
    let (fp, is_fp_known) = known(walk.register(A::FP as u8));
    let flags = frame::GUESSED;
    walk.enter_caller::<A>(&Caller { pc, sp: sp.wrapping_add(8), fp, is_fp_known, kept: None, flags })?;
    walk.guessed += 1;
    Ok(true)
}
