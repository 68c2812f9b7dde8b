//! Arrays of frames: their ends, and the caller of a frame; see [`abi::array`](crate::abi::array).

use super::state::{InterpreterState, phase};
use crate::abi::array::{parameter, top};
use crate::machine::Machine;
use crate::walk::Walk;

/// Finds the innermost and the outermost frame, from the address of the top word at the end of the path. Returns `None` if they are
/// unreadable, or not in one array.
#[inline(always)]
pub(super) fn find_ends<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let state = &mut walk.interpreter;
    let step = state.parameters[parameter::STEP];
    let top = machine.read_memory(state.at)?;
    let end = machine.read_memory(state.at.wrapping_add(state.parameters[parameter::END]))?;
    let outermost = end.wrapping_add(state.parameters[parameter::END_OFFSET]);
    let is_counted = state.parameters[parameter::TOP] == top::COUNT;
    let number = if is_counted { top & 0xffff_ffff } else { top };
    let innermost = if is_counted {
        outermost.wrapping_sub(step.wrapping_mul(number.wrapping_sub(1)))
    } else {
        top.wrapping_add(state.parameters[parameter::TOP_OFFSET])
    };
    state.outermost[slot] = outermost;
    state.phase = phase::TAKING;
    let is_empty = number == 0 || innermost == outermost.wrapping_add(step);
    state.next[slot] = if is_empty { 0 } else { innermost };
    if is_empty || distance(state, innermost, slot) >> 63 == 0 { Some(()) } else { None }
}

/// Returns the caller of the frame at `at`, 0 for the outermost frame.
#[inline(always)]
pub(super) fn caller(state: &InterpreterState, at: u64, slot: usize) -> u64 {
    let step = state.parameters[parameter::STEP];
    let size = if step >> 63 == 0 { step } else { step.wrapping_neg() };
    if distance(state, at, slot) < size { 0 } else { at.wrapping_add(step) }
}

/// Returns the distance from the frame at `at` to the outermost one, in the direction of its callers.
#[inline(always)]
fn distance(state: &InterpreterState, at: u64, slot: usize) -> u64 {
    let distance = state.outermost[slot].wrapping_sub(at);
    if state.parameters[parameter::STEP] >> 63 == 0 { distance } else { distance.wrapping_neg() }
}
