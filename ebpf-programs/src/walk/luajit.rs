//! Frames of LuaJIT's traces: code that it compiles while it runs.
//!
//! A trace runs in the frame of the loop that entered it, below which it has an area whose size is the trace's:
//!
//! ```text
//!   stack pointer     spilled values      n · 16 bytes
//!                     saved registers     16 bytes
//!   frame             … | results | state | pc | …             80 bytes: see abi::luajit
//!                     return address
//! ```
//!
//! The frame is recognized by its state, which has the address of its innermost frame on the native stack. One step looks at
//! one address. Then the Lua frames are taken as those of a loop, beginning with that in which the trace began.

use super::arch::Arch;
use super::interpreter::luajit::find_trace;
use super::interpreter::mark_changed;
use super::native::known;
use super::{Caller, Walk};
use crate::abi::luajit::native_frame;
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::machine::Machine;

/// Takes a step at the trace at `pc`: towards the loop's frame, or to its caller. Returns `false` if there is none.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    let at = walk.interpreter.lua.trace();
    if at != 0 {
        walk.interpreter.lua.leave();
        let (fp, is_fp_known) = known(machine.read_stack(at.wrapping_add(native_frame::SAVED_FP)));
        let pc = machine.read_stack(at.wrapping_add(native_frame::RETURN)).ok_or(Stop::Unreadable)?;
        let sp = at.wrapping_add(native_frame::SIZE);
        walk.enter_caller::<A>(&Caller { pc, sp, fp, is_fp_known, kept: None, flags: 0 })?;
        return Ok(true);
    }
    match find_trace(walk, machine, walk.registers.values[A::SP]) {
        Some(false) => Ok(true),
        Some(true) => {
            walk.emit_native(machine, pc | frame::LOOP);
            if machine.thread_pointer().is_none() {
                mark_changed(walk, machine);
            }
            Ok(true)
        }
        None => {
            walk.interpreter.lua.leave();
            walk.emit_native(machine, pc);
            Ok(false)
        }
    }
}
