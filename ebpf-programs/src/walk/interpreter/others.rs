//! The way to other entries of the thread, where one list is at its end and another loop is met: interpreters that call
//! one another.

use super::state::{InterpreterState, phase};
use crate::abi::interpreter::{HOPS, MAX_ENTRIES, MAX_THREADS};
use crate::machine::Machine;
use crate::walk::Walk;

/// One step on the way to an entry of this thread that no frames were taken from.
#[inline(always)]
pub(super) fn seek<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let state = &mut walk.interpreter;
    let others = state.loaded.others;
    let at = match state.phase {
        phase::FIRST => others.head,
        phase::ENTRIES => state.owner.wrapping_add(others.entries as u64),
        phase::OWN => state.entry.wrapping_add(others.thread as u64),
        phase::LINK => state.entry.wrapping_add(others.link as u64),
        phase::NEXT => state.owner.wrapping_add(others.next as u64),
        _ => {
            let offset = state.loaded.top.offsets[state.hop as usize & (HOPS - 1)];
            state.at.wrapping_add(offset as u64)
        }
    };
    let value = machine.read_memory(at)?;
    match state.phase {
        phase::FIRST | phase::NEXT => {
            state.owner = value;
            state.searched += 1;
            state.phase = phase::ENTRIES;
            if value == 0 {
                settle(state, slot);
            }
        }
        phase::ENTRIES | phase::LINK => {
            state.entry = value;
            state.searched += 1;
            state.phase = if value == 0 { phase::NEXT } else { phase::OWN };
        }
        phase::OWN => {
            let is_other = value == machine.thread_pointer()? && !state.is_marked(state.entry);
            state.at = state.entry;
            state.hop = others.hop;
            state.phase = if is_other { phase::WAY } else { phase::LINK };
        }
        _ => {
            state.at = value;
            state.hop += 1;
            if value == 0 {
                // It runs nothing at the moment.
                state.phase = phase::LINK;
            } else if state.hop >= state.loaded.top.hops {
                if state.found[0] != 0 {
                    // Nothing tells which of two called the other.
                    return None;
                }
                state.found = [value, state.entry];
                state.phase = phase::LINK;
            }
        }
    }
    (state.searched < MAX_THREADS).then_some(())
}

/// All entries were looked at: goes on with what was found.
#[inline(always)]
fn settle(state: &mut InterpreterState, slot: usize) {
    let [frame, entry] = state.found;
    state.phase = phase::TAKING;
    state.next[slot] = frame;
    if frame == 0 || state.entered as usize >= MAX_ENTRIES {
        state.ended |= 1 << slot;
        state.next[slot] = 0;
    }
    state.mark(entry);
}
