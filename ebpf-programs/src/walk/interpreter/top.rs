//! The way to the innermost frame of the thread, for the first loop of an interpreter that a walk meets.

use super::state::{InterpreterState, phase};
use crate::abi::interpreter::{HOPS, MAX_THREADS, from};
use crate::machine::Machine;
use crate::walk::Walk;

/// Takes one hop.
#[inline(always)]
pub(super) fn hop<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let state = &mut walk.interpreter;
    let offset = state.loaded.top.offsets[state.hop as usize & (HOPS - 1)];
    if state.hop == state.loaded.others.hop {
        state.mark(state.at);
    }
    state.at = machine.read_memory(state.at.wrapping_add(offset as u64))?;
    state.hop += 1;
    let is_listed = state.loaded.top.from >= from::LIST && state.hop == 1;
    if state.at == 0 && is_listed && state.loaded.top.from == from::CURRENT {
        // None is in use.
        otherwise(state, machine.thread_pointer()?);
    } else if state.at == 0 && state.loaded.others.head != 0 {
        // It runs nothing for this interpreter yet.
        state.look_for_others();
    } else if state.at == 0 {
        // This thread runs no script.
        state.next[slot] = 0;
        state.phase = phase::BEHIND;
    } else if state.hop >= state.loaded.top.hops {
        state.next[slot] = state.at;
        state.phase = phase::TAKING;
    } else if is_listed {
        state.searched = 0;
        state.phase = phase::COMPARING;
    }
    Some(())
}

/// Looks whether an entry is the thread's own.
#[inline(always)]
pub(super) fn compare<M: Machine>(walk: &mut Walk, machine: &mut M) -> Option<()> {
    let state = &mut walk.interpreter;
    let thread = machine.read_memory(state.at.wrapping_add(state.loaded.top.thread as u64))?;
    let own = machine.thread_pointer()?;
    let is_current = state.loaded.top.from == from::CURRENT;
    state.phase = if thread == own || is_current { phase::HOPPING } else { phase::SEARCHING };
    if is_current && thread == own {
        state.hop = state.loaded.top.next.wrapping_add(1);
    } else if is_current {
        otherwise(state, own);
    }
    Some(())
}

/// What is in use isn't this thread's: goes the other way to its entry.
#[inline(always)]
fn otherwise(state: &mut InterpreterState, thread: u64) {
    state.at = thread;
    if state.loaded.top.next == 0 {
        state.look_for_others();
    }
}

/// Goes to the next entry.
#[inline(always)]
pub(super) fn search<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let state = &mut walk.interpreter;
    state.at = machine.read_memory(state.at.wrapping_add(state.loaded.top.next as u64))?;
    state.searched += 1;
    state.phase = phase::COMPARING;
    if state.at == 0 {
        // This thread runs no script.
        state.next[slot] = 0;
        state.phase = phase::BEHIND;
    }
    // A list that doesn't end is a lie, or longer than what is looked through.
    (state.searched < MAX_THREADS).then_some(())
}

const _: () = assert!(HOPS.is_power_of_two());
