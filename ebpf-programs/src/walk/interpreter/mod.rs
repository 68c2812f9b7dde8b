//! Frames of interpreters: a list in memory, taken where the native walk stands in an interpreter's loop.
//!
//! ```text
//!   OUTSIDE ──loop met──► HOPPING ──innermost frame──► TAKING ──end of the run──► BEHIND ──native caller──► OUTSIDE
//!                            first loop of the walk only      one frame a step
//!                            ▲ │
//!                            │ ▼ first hop led to a thread, or to a list of them
//!                         COMPARING ◄──► SEARCHING
//!
//!   list at its end, another loop met ──► FIRST ──► ENTRIES ──► OWN ──► WAY ──► TAKING, or BEHIND
//!                                            NEXT ◄──┘  ▲ LINK ◄─┴───────┘
//! ```
//!
//! ```text
//!   calls         what a walk knows of them, and its states
//!   description   what user space says of an interpreter
//!   top           HOPPING, COMPARING, SEARCHING
//!   frames        TAKING
//!   others        FIRST to NEXT
//! ```
//!
//! One read a step: the verifier follows every way through a loop, so there is none here. Whatever can't be read ends
//! the list with a call of no function, which stands in the stack where frames are missing; the native walk goes on.

mod calls;

mod description;

mod frames;

mod others;

mod top;

use super::Walk;
use super::arena::{UNIT_WORDS, block};
use crate::abi::interpreter::{LOOPS, from};
use crate::abi::record::{MAX_RAW_CALLS, frame};
use crate::machine::Machine;

pub(super) use calls::{Calls, state};

/// Whether `pc` lies in the loop of the interpreter that belongs to the current mapping.
#[inline(always)]
pub(super) fn is_loop<M: Machine>(walk: &mut Walk, machine: &M, pc: u64) -> bool {
    let number = walk.mapping.interpreter as u32;
    if number != walk.calls.number {
        let at = walk.process.interpreters.wrapping_mul(UNIT_WORDS);
        let at = at.wrapping_add(number.wrapping_sub(1).wrapping_mul(description::WORDS));
        let Some(block) = block(machine, at) else { return false };
        description::load(&mut walk.calls.interpreter, block, at);
        walk.calls.number = number;
    }
    let loops = &walk.calls.interpreter.loops;
    let mut inside = false;
    let mut index = 0;
    while index < LOOPS {
        inside |= pc.wrapping_sub(loops[index][0]) < loops[index][1].wrapping_sub(loops[index][0]);
        index += 1;
    }
    inside
}

/// Begins with the frames of the loop that was just met.
#[inline(always)]
pub(super) fn enter<M: Machine>(walk: &mut Walk, machine: &mut M) {
    let calls = &mut walk.calls;
    if calls.begun >> calls.slot() & 1 != 0 {
        calls.state = state::TAKING;
        let is_over = calls.next[calls.slot()] == 0 && calls.ended >> calls.slot() & 1 == 0;
        if is_over && calls.interpreter.others.head != 0 {
            calls.look_for_others();
        }
        return;
    }
    calls.begun |= 1 << calls.slot();
    calls.hop = 0;
    calls.state = state::HOPPING;
    let start = match calls.interpreter.top.from {
        from::THREAD => machine.thread_pointer(),
        from::ZERO => Some(0),
        // Later, but then it is too late to keep silent where there is none.
        from::LIST | from::CURRENT => machine.thread_pointer().map(|_| 0),
        from::UNKNOWN => {
            machine.hurry();
            None
        }
        _ => None,
    };
    match start {
        Some(start) => calls.at = start,
        None => {
            // Seen, but there is no way to its frames: the native frames stand for themselves.
            let slot = calls.slot();
            calls.ended |= 1 << slot;
            calls.next[slot] = 0;
            calls.state = state::BEHIND;
        }
    }
}

/// Prepares to take all calls of the process's first interpreter, without a native walk; false where it has none.
#[inline(always)]
pub(super) fn begin_calls(walk: &mut Walk) -> bool {
    walk.words = 0;
    walk.calls.begin();
    walk.calls.state = state::ALONE;
    walk.process.interpreters != 0
}

/// One step of such; whether it is over.
#[inline(always)]
pub(super) fn step_calls<M: Machine>(walk: &mut Walk, machine: &mut M) -> bool {
    match walk.calls.state {
        state::ALONE => {
            walk.mapping.interpreter = 1;
            is_loop(walk, machine, 0);
            enter(walk, machine);
            false
        }
        state::BEHIND => {
            machine.frame(frame::LOOP);
            walk.words += 1;
            walk.calls.state = state::TAKING;
            walk.calls.next[walk.calls.slot()] == 0 || walk.words >= MAX_RAW_CALLS
        }
        _ => {
            step(walk, machine);
            false
        }
    }
}

/// One step among the frames of an interpreter.
#[inline(always)]
pub(super) fn step<M: Machine>(walk: &mut Walk, machine: &mut M) {
    let slot = walk.calls.slot();
    let done = match walk.calls.state {
        state::HOPPING => top::hop(walk, machine, slot),
        state::COMPARING => top::compare(walk, machine),
        state::SEARCHING => top::search(walk, machine, slot),
        state::TAKING => frames::take(walk, machine, slot),
        _ => others::seek(walk, machine, slot),
    };
    if done.is_none() {
        // What can't be read is no reason to keep silent. Whose the further loops are can't be told any more.
        frames::emit(walk, machine, 0, 0, 0);
        walk.calls.ended |= 1 << slot;
        walk.calls.next[slot] = 0;
        walk.calls.state = state::BEHIND;
    }
}
