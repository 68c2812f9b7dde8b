//! The way to the innermost frame of the thread, for the first loop of an interpreter that a walk meets.

use super::calls::{Calls, state};
use crate::abi::interpreter::{HOPS, MAX_THREADS, from};
use crate::machine::Machine;
use crate::walk::Walk;

/// Takes one hop.
#[inline(always)]
pub(super) fn hop<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let calls = &mut walk.calls;
    let offset = calls.interpreter.top.offsets[calls.hop as usize & (HOPS - 1)];
    if calls.hop == calls.interpreter.others.hop {
        calls.mark(calls.at);
    }
    calls.at = machine.memory(calls.at.wrapping_add(offset as u64))?;
    calls.hop += 1;
    let is_listed = calls.interpreter.top.from >= from::LIST && calls.hop == 1;
    if calls.at == 0 && is_listed && calls.interpreter.top.from == from::CURRENT {
        // None is in use.
        otherwise(calls, machine.thread_pointer()?);
    } else if calls.at == 0 && calls.interpreter.others.head != 0 {
        // It runs nothing for this interpreter yet.
        calls.look_for_others();
    } else if calls.at == 0 {
        // This thread runs no script.
        calls.next[slot] = 0;
        calls.state = state::BEHIND;
    } else if calls.hop >= calls.interpreter.top.hops {
        calls.next[slot] = calls.at;
        calls.state = state::TAKING;
    } else if is_listed {
        calls.searched = 0;
        calls.state = state::COMPARING;
    }
    Some(())
}

/// Looks whether an entry is the thread's own.
#[inline(always)]
pub(super) fn compare<M: Machine>(walk: &mut Walk, machine: &mut M) -> Option<()> {
    let calls = &mut walk.calls;
    let thread = machine.memory(calls.at.wrapping_add(calls.interpreter.top.thread as u64))?;
    let own = machine.thread_pointer()?;
    let is_current = calls.interpreter.top.from == from::CURRENT;
    calls.state = if thread == own || is_current { state::HOPPING } else { state::SEARCHING };
    if is_current && thread == own {
        calls.hop = calls.interpreter.top.next.wrapping_add(1);
    } else if is_current {
        otherwise(calls, own);
    }
    Some(())
}

/// What is in use isn't this thread's: goes the other way to its entry.
#[inline(always)]
fn otherwise(calls: &mut Calls, thread: u64) {
    calls.at = thread;
    if calls.interpreter.top.next == 0 {
        calls.look_for_others();
    }
}

/// Goes to the next entry.
#[inline(always)]
pub(super) fn search<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let calls = &mut walk.calls;
    calls.at = machine.memory(calls.at.wrapping_add(calls.interpreter.top.next as u64))?;
    calls.searched += 1;
    calls.state = state::COMPARING;
    if calls.at == 0 {
        // This thread runs no script.
        calls.next[slot] = 0;
        calls.state = state::BEHIND;
    }
    // A list that doesn't end is a lie, or longer than what is looked through.
    (calls.searched < MAX_THREADS).then_some(())
}

const _: () = assert!(HOPS.is_power_of_two());
