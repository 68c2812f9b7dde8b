//! Frames of code that PHP's JIT compiles.
//!
//! The code replaces handlers of the loop, which jumps to it: it runs in the loop's frame, whose size is fixed, and returns from
//! it by a jump. A few subroutines of the code have something below that frame:
//!
//! ```text
//!   stack pointer     of a subroutine: return address, saved registers; otherwise nothing
//!   frame             of the loop: parameter bytes
//!                     return address
//! ```
//!
//! The frame is recognized by its return address, which is behind a call instruction. One step looks at one address. Then the
//! walk continues as if it had reached the loop itself.

use super::Walk;
use super::arch::{Arch, CallInstruction};
use crate::abi::php::{FRAME_POINTER, parameter};
use crate::abi::reason::Stop;
use crate::machine::Machine;

/// Distance between addresses that are searched for the loop's frame, in bytes.
const WORD: u64 = 8;

/// Maximum number of addresses that are searched for the loop's frame: 16 registers of each kind are saved, and two words.
const SEARCHED: u32 = 40;

/// Takes a step at code of the JIT at `pc`: towards the loop's frame, or to the loop. Returns `false` if there is none.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    let frame = walk.interpreter.parameters[parameter::FRAME];
    let size = frame & !FRAME_POINTER;
    let searched = walk.interpreter.php.searched;
    walk.interpreter.php.searched = searched + 1;
    if size == 0 || searched >= SEARCHED {
        walk.interpreter.php.searched = 0;
        walk.emit_native(machine, pc);
        return Ok(false);
    }
    let sp = walk.registers.values[A::SP].wrapping_add(searched as u64 * WORD);
    let cfa = sp.wrapping_add(size);
    let return_address = A::strip(machine.read_stack(cfa.wrapping_sub(WORD)).unwrap_or(0));
    if A::call_before(machine, return_address) == CallInstruction::None {
        return Ok(true);
    }
    walk.interpreter.php.searched = 0;
    walk.interpreter.php.code = pc;
    walk.registers.values[A::SP] = sp;
    if frame & FRAME_POINTER != 0 {
        walk.registers.values[A::FP] = cfa.wrapping_sub(2 * WORD);
        walk.registers.known |= 1 << A::FP;
    }
    walk.registers.pc = walk.interpreter.parameters[parameter::RESUME];
    Ok(true)
}
