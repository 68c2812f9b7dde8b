//! Search for another entry of the thread after the end of one list, when the walk reaches a further loop: interpreters that
//! call one another.

use super::state::{InterpreterState, phase};
use crate::abi::interpreter::{HOPS, MAX_ENTRIES, MAX_THREADS};
use crate::machine::Machine;
use crate::walk::Walk;

/// Takes one step towards an unused entry of this thread. Returns `None` if there is no single one.
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
                // It has no frames.
                state.phase = phase::LINK;
            } else if state.hop >= state.loaded.top.hops {
                if state.found[0] != 0 {
                    // The order of two entries is unknown.
                    return None;
                }
                state.found = [value, state.entry];
                state.phase = phase::LINK;
            }
        }
    }
    (state.searched < MAX_THREADS).then_some(())
}

/// Ends the search, after all entries, with the one that was found.
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
