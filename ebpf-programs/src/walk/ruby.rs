//! Frames of code that Ruby compiles while it runs: YJIT's and RJIT's.
//!
//! Compiled methods call one another by jumps, so that all of a run share one frame on the native stack:
//!
//! ```text
//!   stack pointer     registers saved around a call of C                    n · 8 bytes
//!                     the caller's registers, which compiled code uses      24 bytes
//!   [frame pointer    the caller's]                                         8 bytes
//!                     return address, in the function that entered the code
//! ```
//!
//! No other word of it is an address in the runtime's file behind a call of an address in a register, as compiled code is called.
//! One step looks at one word, first at the one where the return address lies while no registers are saved.
//!
//! Executable memory without a file may contain code of other compilers. Ruby's compiled code keeps the
//! execution context and the control frame in registers. An innermost frame without them is unwound by
//! the rules for unknown code.
//!
//! The frame is skipped: the control frames, which the loop's caller takes, are those of the compiled methods.

use super::arch::Arch;
use super::native::known;
use super::{Caller, Walk};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::abi::ruby::{CONTEXT_FRAME, PARAMETER_TEXT};
use crate::machine::Machine;

/// Number of stack words that are searched.
const SEARCHED: u32 = 20;

/// Number of words below the return address.
const SAVED: u32 = 3;

/// Maximum distance between the control frame in the register and that in the execution context, in bytes: one of them is stored
/// first when a method is called.
const MAX_DISTANCE: u64 = 256;

/// Returns `true` if the registers of the innermost frame are those of compiled code.
#[inline(always)]
fn is_compiled<A: Arch, M: Machine>(walk: &Walk, machine: &mut M) -> bool {
    let mut is_compiled = false;
    let mut index = 0;
    while index < A::RUBY.len() {
        let [context, innermost] = A::RUBY[index].map(|number| walk.registers.values[number]);
        let current = machine.read_memory(context.wrapping_add(CONTEXT_FRAME)).unwrap_or(0);
        is_compiled |= current != 0
            && innermost & 7 == 0
            && innermost.wrapping_sub(current).wrapping_add(MAX_DISTANCE) <= 2 * MAX_DISTANCE;
        index += 1;
    }
    is_compiled
}

/// Takes a step at the compiled code at `pc`: towards its return address, or to its caller. Returns `false` if there is none.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    let searched = walk.interpreter.ruby.words;
    if searched == 0 && walk.flags & frame::EXACT != 0 && !is_compiled::<A, M>(walk, machine) {
        walk.emit_native(machine, pc);
        return Ok(false);
    }
    let word = match searched {
        0 => SAVED,
        1..=SAVED => searched - 1,
        _ => searched,
    };
    let at = walk.registers.values[A::SP].wrapping_add(word as u64 * 8);
    let target = A::strip(machine.read_stack(at).unwrap_or(0));
    let [start, end] = [0, 1].map(|index| walk.interpreter.parameters[PARAMETER_TEXT + index]);
    let is_return =
        target.wrapping_sub(start) < end.wrapping_sub(start) && A::calls_register(machine, target);
    if !is_return {
        walk.interpreter.ruby.words = searched + 1;
        if searched < SEARCHED {
            return Ok(true);
        }
        walk.interpreter.ruby.words = 0;
        walk.emit_native(machine, pc);
        return Ok(false);
    }
    walk.interpreter.ruby.words = 0;
    walk.interpreter.ruby.is_compiled = 1;
    let (mut fp, mut is_fp_known) = known(walk.register(A::FP as u8));
    if is_fp_known && fp == at.wrapping_sub(8) {
        (fp, is_fp_known) = known(machine.read_stack(fp));
    }
    let sp = at.wrapping_add(8);
    walk.enter_caller::<A>(&Caller { pc: target, sp, fp, is_fp_known, kept: None, flags: 0 })?;
    Ok(true)
}
