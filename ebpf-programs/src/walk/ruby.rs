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
//! No other word of it is an address behind a call in the runtime's file. One step looks at one word, first at the one where
//! the return address lies while no registers are saved.
//!
//! The frame is skipped: the control frames, which the loop's caller takes, are those of the compiled methods.

use super::arch::{Arch, CallInstruction};
use super::native::known;
use super::{Caller, Walk};
use crate::abi::reason::Stop;
use crate::abi::ruby::PARAMETER_TEXT;
use crate::machine::Machine;

/// Number of stack words that are searched.
const SEARCHED: u32 = 32;

/// Number of words below the return address.
const SAVED: u32 = 3;

/// Takes a step at the compiled code at `pc`: towards its return address, or to its caller. Returns `false` if there is none.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    let searched = walk.interpreter.ruby.words;
    let word = match searched {
        0 => SAVED,
        1..=SAVED => searched - 1,
        _ => searched,
    };
    let at = walk.registers.values[A::SP].wrapping_add(word as u64 * 8);
    let target = A::strip(machine.read_stack(at).unwrap_or(0));
    let [start, end] = [0, 1].map(|index| walk.interpreter.parameters[PARAMETER_TEXT + index]);
    let is_return = target.wrapping_sub(start) < end.wrapping_sub(start)
        && A::call_before(machine, target) != CallInstruction::None;
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
