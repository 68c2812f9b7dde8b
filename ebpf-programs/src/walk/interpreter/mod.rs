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

mod state;

mod description;

mod frames;

mod others;

mod top;

use super::Walk;
use super::arena::{UNIT_WORDS, block};
use crate::abi::interpreter::{LOOPS, from};
use crate::abi::record::{MAX_RAW_WORDS, frame};
use crate::machine::Machine;

pub(super) use state::{InterpreterState, phase};

/// Whether `pc` lies in the loop of the interpreter that belongs to the current mapping.
#[inline(always)]
pub(super) fn is_loop<M: Machine>(walk: &mut Walk, machine: &M, pc: u64) -> bool {
    let number = walk.mapping.interpreter as u32;
    if number != walk.interpreter.number {
        let at = walk.process.interpreters.wrapping_mul(UNIT_WORDS);
        let at = at.wrapping_add(number.wrapping_sub(1).wrapping_mul(description::WORDS));
        let Some(block) = block(machine, at) else { return false };
        description::load(&mut walk.interpreter.loaded, block, at);
        walk.interpreter.number = number;
    }
    let loops = &walk.interpreter.loaded.loops;
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
    let state = &mut walk.interpreter;
    if state.begun >> state.slot() & 1 != 0 {
        state.phase = phase::TAKING;
        let is_over = state.next[state.slot()] == 0 && state.ended >> state.slot() & 1 == 0;
        if is_over && state.loaded.others.head != 0 {
            state.look_for_others();
        }
        return;
    }
    state.begun |= 1 << state.slot();
    state.hop = 0;
    state.phase = phase::HOPPING;
    let start = match state.loaded.top.from {
        from::THREAD => machine.thread_pointer(),
        from::ZERO => Some(0),
        // Later, but then it is too late to keep silent where there is none.
        from::LIST | from::CURRENT => machine.thread_pointer().map(|_| 0),
        from::UNKNOWN => {
            machine.request_wakeup();
            None
        }
        _ => None,
    };
    match start {
        Some(start) => state.at = start,
        None => {
            // Seen, but there is no way to its frames: the native frames stand for themselves.
            let slot = state.slot();
            state.ended |= 1 << slot;
            state.next[slot] = 0;
            state.phase = phase::BEHIND;
        }
    }
}

/// Prepares to take all calls of the process's first interpreter, without a native walk; false where it has none.
#[inline(always)]
pub(super) fn begin_interpreter_frames(walk: &mut Walk) -> bool {
    walk.words = 0;
    walk.interpreter.begin();
    walk.interpreter.phase = phase::ALONE;
    walk.process.interpreters != 0
}

/// One step of such; whether it is over.
#[inline(always)]
pub(super) fn step_interpreter_frames<M: Machine>(walk: &mut Walk, machine: &mut M) -> bool {
    match walk.interpreter.phase {
        phase::ALONE => {
            walk.mapping.interpreter = 1;
            is_loop(walk, machine, 0);
            enter(walk, machine);
            false
        }
        phase::BEHIND => {
            machine.push_frame(frame::LOOP);
            walk.words += 1;
            walk.interpreter.phase = phase::TAKING;
            walk.interpreter.next[walk.interpreter.slot()] == 0 || walk.words >= MAX_RAW_WORDS
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
    let slot = walk.interpreter.slot();
    let done = match walk.interpreter.phase {
        phase::HOPPING => top::hop(walk, machine, slot),
        phase::COMPARING => top::compare(walk, machine),
        phase::SEARCHING => top::search(walk, machine, slot),
        phase::TAKING => frames::take(walk, machine, slot),
        _ => others::seek(walk, machine, slot),
    };
    if done.is_none() {
        // What can't be read is no reason to keep silent. Whose the further loops are can't be told any more.
        frames::emit(walk, machine, 0, 0, 0);
        walk.interpreter.ended |= 1 << slot;
        walk.interpreter.next[slot] = 0;
        walk.interpreter.phase = phase::BEHIND;
    }
}
