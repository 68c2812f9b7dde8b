//! Interpreter frames: taken from memory when the native walk reaches an interpreter loop.
//!
//! ```text
//!   OUTSIDE ──loop────► HOPPING ──innermost frame──► TAKING ──end of the run──► BEHIND ──native caller──► OUTSIDE
//!                            first loop of the walk only      one frame a step
//!                            ▲ │           (from an array after ENDS)
//!                            │ ▼ after the first hop, at a thread or a list of threads
//!                         COMPARING ◄──► SEARCHING
//!
//!   list ended, another loop reached  ──► FIRST ──► ENTRIES ──► OWN ──► WAY ──► TAKING, or BEHIND
//!                                            NEXT ◄──┘  ▲ LINK ◄─┴───────┘
//! ```
//!
//! ```text
//!   state         state of a walk, and its phases
//!   description   decodes the description of an interpreter
//!   top           HOPPING, COMPARING, SEARCHING
//!   frames        TAKING from a linked list, or an array
//!   array         ENDS of an array
//!   ruby          TAKING from an array, with a search for methods
//!   php           TAKING from a linked list with placeholders
//!   perl          TAKING from arrays of contexts
//!   luajit        TAKING from the stacks of states
//!   others        FIRST to NEXT
//! ```
//!
//! Each step makes a few reads and has no loop, because the verifier follows every path through one. An unreadable word ends
//! the list with a frame of function 0, which marks the missing frames; the native walk continues.

mod state;

mod array;

mod description;

mod frames;

pub(super) mod luajit;

mod others;

pub(super) mod ruby;

mod perl;

mod php;

mod top;

use super::Walk;
use super::arena::block;
use crate::abi::interpreter::{LOOPS, from, walker};
use crate::abi::record::{MAX_RAW_WORDS, frame};
use crate::machine::Machine;

pub(super) use frames::check_of;
pub(super) use state::{InterpreterState, phase};

/// Loads the description of the current mapping's interpreter. `None` if it lies beyond the arena.
#[inline(always)]
pub(super) fn load<M: Machine>(walk: &mut Walk, machine: &M) -> Option<()> {
    let number = walk.mapping.interpreter as u32;
    if number != walk.interpreter.number {
        let at = description::place(&walk.process, number);
        let words = description::words(block(machine, at)?, at)?;
        description::load(&mut walk.interpreter.loaded, words);
        walk.interpreter.walker = description::walker(words);
        if walk.interpreter.walker != walker::LIST {
            description::load_parameters(&mut walk.interpreter.parameters, words);
        }
        walk.interpreter.number = number;
    }
    Some(())
}

/// Returns `true` if `pc` lies in the loop of the current mapping's interpreter.
#[inline(always)]
pub(super) fn is_loop<M: Machine>(walk: &mut Walk, machine: &M, pc: u64) -> bool {
    if load(walk, machine).is_none() {
        return false;
    }
    let loops = &walk.interpreter.loaded.loops;
    let mut inside = false;
    let mut index = 0;
    while index < LOOPS {
        inside |= pc.wrapping_sub(loops[index][0]) < loops[index][1].wrapping_sub(loops[index][0]);
        index += 1;
    }
    if inside && walk.interpreter.walker == walker::RUBY && M::has_walker(walker::RUBY) {
        return ruby::takes_run(walk, pc);
    }
    if walk.interpreter.walker == walker::PERL && M::has_walker(walker::PERL) {
        return perl::takes_run(walk, pc, inside);
    }
    inside
}

/// Starts with the interpreter frames of the loop that was just emitted, whose stack pointer is `sp`, 0 if unknown.
#[inline(always)]
pub(super) fn enter<M: Machine>(walk: &mut Walk, machine: &mut M, sp: u64) {
    let state = &mut walk.interpreter;
    let is_ended = state.ended >> state.slot() & 1 != 0;
    let is_on_stack = state.loaded.top.from == from::STACK && sp != 0 && !is_ended;
    if is_on_stack {
        if machine.thread_pointer().is_none() {
            return mark_changed(walk, machine);
        }
        let slot = state.slot();
        state.next[slot] = sp;
        state.lua.enter();
        state.phase = phase::TAKING;
        return;
    }
    if state.begun >> state.slot() & 1 != 0 {
        state.phase = phase::TAKING;
        let is_over = state.next[state.slot()] == 0 && state.ended >> state.slot() & 1 == 0;
        if is_over && state.loaded.others.head != 0 {
            state.search_others();
        }
        return;
    }
    state.begun |= 1 << state.slot();
    state.hop = 0;
    state.phase = phase::HOPPING;
    let start = match state.loaded.top.from {
        from::THREAD => machine.thread_pointer(),
        // A thread without a thread pointer is found out now, before frames count as missing: its frames are not those of
        // the memory, which is read later than the stack. Lists need the thread pointer, too.
        from::ZERO | from::LIST | from::CURRENT => machine.thread_pointer().map(|_| 0),
        from::UNKNOWN => {
            machine.request_wakeup();
            None
        }
        _ => None,
    };
    match start {
        Some(start) => state.at = start,
        None => {
            // There is no path to its frames: only native frames are emitted.
            let slot = state.slot();
            state.ended |= 1 << slot;
            state.next[slot] = 0;
            state.phase = phase::BEHIND;
        }
    }
}

/// Marks the frames of all further loops as missing, once: without a thread pointer the stack is read later than its sample, and
/// frames in other memory have changed since.
#[inline(always)]
pub(super) fn mark_changed<M: Machine>(walk: &mut Walk, machine: &mut M) {
    let slot = walk.interpreter.slot();
    if walk.interpreter.ended >> slot & 1 == 0 {
        frames::emit(walk, machine, 0, 0, 0);
        walk.interpreter.ended |= 1 << slot;
        walk.interpreter.next[slot] = 0;
        walk.interpreter.phase = phase::BEHIND;
    }
}

/// Prepares to take all frames of the process's first interpreter, without a native walk. Returns `false` if it has none.
#[inline(always)]
pub(super) fn begin_interpreter_frames(walk: &mut Walk) -> bool {
    walk.words = 0;
    walk.interpreter.begin();
    walk.interpreter.phase = phase::ALONE;
    walk.process.interpreters != 0
}

/// Takes one step of such a walk. Returns `true` at the end.
#[inline(always)]
pub(super) fn step_interpreter_frames<M: Machine>(walk: &mut Walk, machine: &mut M) -> bool {
    match walk.interpreter.phase {
        phase::ALONE => {
            walk.mapping.interpreter = 1;
            is_loop(walk, machine, 0);
            enter(walk, machine, 0);
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
            walk.words >= MAX_RAW_WORDS
        }
    }
}

/// Takes the next frame, as the interpreter's walker does.
#[inline(always)]
fn take<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    match walk.interpreter.walker {
        walker if is_described::<M>(walker) => frames::take(walk, machine, slot),
        walker::LUAJIT if M::has_walker(walker::LUAJIT) => luajit::take(walk, machine, slot),
        walker::RUBY if M::has_walker(walker::RUBY) => ruby::take(walk, machine, slot),
        walker::PERL if M::has_walker(walker::PERL) => perl::take(walk, machine, slot),
        walker::PHP if M::has_walker(walker::PHP) => php::take(walk, machine, slot),
        _ => {
            // The program is about to be loaded with this walker. Until then the loop stands for itself.
            walk.interpreter.next[slot] = 0;
            walk.interpreter.phase = phase::BEHIND;
            Some(())
        }
    }
}

/// Returns `true` for a walker of frames whose layout is described, if it may be used.
#[inline(always)]
fn is_described<M: Machine>(walker: u32) -> bool {
    walker == walker::LIST && M::has_walker(walker::LIST)
        || walker == walker::ARRAY && M::has_walker(walker::ARRAY)
}

/// Takes one step in the frames of an interpreter.
#[inline(always)]
pub(super) fn step<M: Machine>(walk: &mut Walk, machine: &mut M) {
    let slot = walk.interpreter.slot();
    let done = match walk.interpreter.phase {
        phase::HOPPING => top::hop(walk, machine, slot),
        phase::COMPARING => top::compare(walk, machine),
        phase::SEARCHING => top::search(walk, machine, slot),
        phase::TAKING => take(walk, machine, slot),
        phase::ENDS if M::has_walker(walker::ARRAY) => array::find_ends(walk, machine, slot),
        _ => others::seek(walk, machine, slot),
    };
    if done.is_none() {
        // Mark the missing frames. Which frames belong to further loops is unknown from here on.
        frames::emit(walk, machine, 0, 0, 0);
        walk.interpreter.ended |= 1 << slot;
        walk.interpreter.next[slot] = 0;
        walk.interpreter.phase = phase::BEHIND;
    }
}
