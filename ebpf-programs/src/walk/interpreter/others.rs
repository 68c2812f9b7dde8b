//! The way to other entries of the thread, where one list is at its end and another loop is met: interpreters that call
//! one another.

use super::calls::{Calls, state};
use crate::abi::interpreter::{HOPS, MAX_ENTRIES, MAX_THREADS};
use crate::machine::Machine;
use crate::walk::Walk;

/// One step on the way to an entry of this thread that no frames were taken from.
#[inline(always)]
pub(super) fn seek<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let calls = &mut walk.calls;
    let others = calls.interpreter.others;
    let at = match calls.state {
        state::FIRST => others.head,
        state::ENTRIES => calls.owner.wrapping_add(others.entries as u64),
        state::OWN => calls.entry.wrapping_add(others.thread as u64),
        state::LINK => calls.entry.wrapping_add(others.link as u64),
        state::NEXT => calls.owner.wrapping_add(others.next as u64),
        _ => {
            let offset = calls.interpreter.top.offsets[calls.hop as usize & (HOPS - 1)];
            calls.at.wrapping_add(offset as u64)
        }
    };
    let value = machine.memory(at)?;
    match calls.state {
        state::FIRST | state::NEXT => {
            calls.owner = value;
            calls.searched += 1;
            calls.state = state::ENTRIES;
            if value == 0 {
                settle(calls, slot);
            }
        }
        state::ENTRIES | state::LINK => {
            calls.entry = value;
            calls.searched += 1;
            calls.state = if value == 0 { state::NEXT } else { state::OWN };
        }
        state::OWN => {
            let is_other = value == machine.thread_pointer()? && !calls.is_marked(calls.entry);
            calls.at = calls.entry;
            calls.hop = others.hop;
            calls.state = if is_other { state::WAY } else { state::LINK };
        }
        _ => {
            calls.at = value;
            calls.hop += 1;
            if value == 0 {
                // It runs nothing at the moment.
                calls.state = state::LINK;
            } else if calls.hop >= calls.interpreter.top.hops {
                if calls.found[0] != 0 {
                    // Nothing tells which of two called the other.
                    return None;
                }
                calls.found = [value, calls.entry];
                calls.state = state::LINK;
            }
        }
    }
    (calls.searched < MAX_THREADS).then_some(())
}

/// All entries were looked at: goes on with what was found.
#[inline(always)]
fn settle(calls: &mut Calls, slot: usize) {
    let [frame, entry] = calls.found;
    calls.state = state::TAKING;
    calls.next[slot] = frame;
    if frame == 0 || calls.entered as usize >= MAX_ENTRIES {
        calls.ended |= 1 << slot;
        calls.next[slot] = 0;
    }
    calls.mark(entry);
}
