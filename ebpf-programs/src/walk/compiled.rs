//! Frames of compiled code that links them by the frame pointer; see [`abi::compiled`](crate::abi::compiled).
//!
//! | code at the leaf | frame |
//! | --- | --- |
//! | before it saves the frame pointer | the return address is at the stack pointer, the function in its register |
//! | before it sets the frame pointer | behind the saved one |
//! | before it stores the frame's words | whole, but the function is in its register only |
//! | at its return | the return address is at the stack pointer; the frame is still in memory below it |
//!
//! A frame whose function is in none of these places, or 0, is emitted as native code. No word is read before the code has stored
//! it: it would be that of a function that was called earlier.

use super::arch::{Arch, LinkedFrame};
use super::interpreter::check_of;
use super::native::known;
use super::{Caller, Walk, frame_pointer};
use crate::abi::compiled::{function, parameter, position};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::machine::Machine;

/// Mask of the addresses that a frame can hold beside its shape.
const ADDRESS: u64 = (1 << frame::SHAPE_SHIFT) - 1;

/// Emits the frame at `pc` and unwinds to its caller. Returns `false` if the caller is unknown.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    let state = if walk.flags & frame::EXACT != 0 {
        A::linked_frame(machine, pc, walk.interpreter.parameters[parameter::PROLOGUE])
    } else {
        LinkedFrame::Whole
    };
    let sp = walk.registers.values[A::SP];
    let (fp, is_fp_known) = known(walk.register(A::FP as u8));
    // Address of the frame's words; 0 if they are not stored.
    let mut words = 0;
    let mut caller = Caller { pc: 0, sp: sp.wrapping_add(8), fp, is_fp_known, kept: None, flags: 0 };
    let mut link = 0;
    match state {
        LinkedFrame::Entered => {}
        LinkedFrame::Left => {
            // The saved frame pointer is still below the return address, if there was a frame.
            let below = sp.wrapping_sub(8);
            if is_fp_known && machine.read_memory(below) == Some(fp) {
                words = below;
            }
        }
        LinkedFrame::Saved => link = sp,
        LinkedFrame::Linked | LinkedFrame::Whole => {
            if is_fp_known && frame_pointer::is_frame(fp, sp) {
                link = fp;
            }
            if matches!(state, LinkedFrame::Whole) {
                words = link;
            }
        }
    }
    let is_building = matches!(state, LinkedFrame::Entered | LinkedFrame::Saved | LinkedFrame::Linked);
    emit(walk, machine, pc, words, is_building);
    let is_unlinked = matches!(state, LinkedFrame::Entered | LinkedFrame::Left);
    if link == 0 && !is_unlinked {
        return Ok(false);
    }
    let at = if is_unlinked { sp } else { link.wrapping_add(8) };
    if !is_unlinked {
        // In the order in which the next step reads.
        caller.fp = machine.read_stack(link).ok_or(Stop::Unreadable)?;
        caller.is_fp_known = true;
        caller.sp = link.wrapping_add(16);
    }
    caller.pc = A::strip(machine.read_stack(at).ok_or(Stop::Unreadable)?);
    walk.enter_caller::<A>(&caller)?;
    Ok(true)
}

/// Emits the frame whose words are at `words`, 0 if they are not stored; they will be if `is_building`.
#[inline(always)]
fn emit<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64, words: u64, is_building: bool) {
    let parameters = &walk.interpreter.parameters;
    let block = pc & !parameters[parameter::BLOCK].wrapping_sub(1);
    let at = match parameters[parameter::FUNCTION] {
        function::IN_FRAME => words,
        function::IN_BLOCK => block,
        _ => 0,
    };
    let in_word =
        if at == 0 { None } else { machine.read_memory(at.wrapping_add(parameters[parameter::FUNCTION_AT])) };
    let register = parameters[parameter::ENTRY];
    let word = match in_word {
        Some(word) => word,
        None if parameters[parameter::FUNCTION] == function::CODE => pc,
        None if is_building && register != 0 => walk.register(register.wrapping_sub(1) as u8).unwrap_or(0),
        None => 0,
    };
    let function = word & walk.interpreter.loaded.frames.function_mask & ADDRESS;
    if function == 0 {
        return walk.emit_native(machine, pc);
    }
    let distance = parameters[parameter::POSITION_AT];
    let position = match parameters[parameter::POSITION] {
        position::IN_FRAME if words == 0 => 0,
        position::IN_FRAME => machine.read_memory(words.wrapping_add(distance)).unwrap_or(0),
        position::FROM_START => {
            pc.wrapping_sub(machine.read_memory(function.wrapping_add(distance)).unwrap_or(0))
        }
        _ => pc.wrapping_sub(function),
    };
    let position = position as u32;
    match check_of(walk, machine, function) {
        Some(check) => walk.emit_runtime_frame(machine, 0, function, check, position),
        // Function 0: a frame that isn't readable.
        None => walk.emit_runtime_frame(machine, 0, 0, 0, 0),
    }
}
