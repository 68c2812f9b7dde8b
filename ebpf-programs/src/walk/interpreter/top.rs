//! Path to the innermost frame of the thread, for the first loop of an interpreter in a walk.

use super::state::{InterpreterState, phase};
use crate::abi::interpreter::{HOPS, MAX_THREADS, from, walker};
use crate::machine::Machine;
use crate::walk::Walk;

/// Takes one hop of the path.
#[inline(always)]
pub(super) fn hop<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let state = &mut walk.interpreter;
    let offset = state.loaded.top.offsets[state.hop as usize & (HOPS - 1)];
    if state.hop == state.loaded.others.hop {
        state.mark(state.at);
    }
    let address = state.at.wrapping_add(offset as u64);
    let is_last = state.hop.wrapping_add(1) >= state.loaded.top.hops;
    if is_last && state.walker == walker::ARRAY && M::has_walker(walker::ARRAY) {
        state.at = address;
        state.phase = phase::ENDS;
        return Some(());
    }
    let is_in_use = state.loaded.top.from == from::CURRENT && state.hop == 0;
    state.at = match machine.read_memory(address) {
        Some(at) => at,
        // The page of a runtime's variables is unmapped while its first write after a fork copies it. The entry of the
        // thread is found as if none were in use.
        None if is_in_use && state.loaded.top.next != 0 => 0,
        None => return None,
    };
    state.hop += 1;
    let is_listed = state.loaded.top.from >= from::LIST && state.hop == 1;
    if state.at == 0 && is_listed && state.loaded.top.from == from::CURRENT {
        // There is no current entry.
        take_alternative(state, machine.thread_pointer()?);
    } else if state.at == 0 && state.loaded.others.head != 0 {
        // The thread has no frames of this interpreter.
        state.search_others();
    } else if state.at == 0 {
        // This thread has no interpreter frames.
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

/// Compares an entry's thread with the current one.
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
        take_alternative(state, own);
    }
    Some(())
}

/// Takes the alternative path to this thread's entry, because the current entry is another thread's.
#[inline(always)]
fn take_alternative(state: &mut InterpreterState, thread: u64) {
    state.at = thread;
    if state.loaded.top.next == 0 {
        state.search_others();
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
        // This thread has no interpreter frames.
        state.next[slot] = 0;
        state.phase = phase::BEHIND;
    }
    // Gives up on lists that are circular or too long.
    (state.searched < MAX_THREADS).then_some(())
}

const _: () = assert!(HOPS.is_power_of_two());
