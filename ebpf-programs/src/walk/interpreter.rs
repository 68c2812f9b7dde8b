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
//! One read a step: the verifier follows every way through a loop, so there is none here. Whatever can't be read ends
//! the list with a call of no function, which stands in the stack where frames are missing; the native walk goes on.

use super::Walk;
use super::arena::{UNIT_WORDS, block, double, word};
use crate::abi::arena::Block;
use crate::abi::interpreter::{
    CHECK_WORDS, FRAME_BYTES, Frames, HOPS, Interpreter, LOOPS, MAX, MAX_CALLS, MAX_ENTRIES, MAX_THREADS,
    NO_CHECK, fold, from, position, run,
};
use crate::abi::record::{MAX_RAW_CALLS, frame};
use crate::machine::Machine;

/// Where a walk stands among the frames of interpreters.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    /// One of [`state`].
    pub(super) state: u32,
    /// The interpreter that is loaded, counted from 1; 0 for none.
    number: u32,
    /// Hops taken on the way to its innermost frame.
    hop: u32,
    /// Frames of interpreters taken so far.
    taken: u32,
    /// Bit `n` is set where the list of interpreter `n` was begun.
    begun: u32,
    /// Bit `n` is set where interpreter `n` has no further list for this thread, or none that can be told.
    ended: u32,
    /// Entries of lists that were looked at.
    searched: u32,
    /// How many entries frames were taken from.
    entered: u32,
    /// The way so far while hopping.
    at: u64,
    /// The next frame of each interpreter; 0 where its list is at its end.
    next: [u64; MAX],
    /// The entries that frames were taken from.
    entries: [u64; MAX_ENTRIES],
    /// While other entries are looked for: an interpreter, an entry of it …
    owner: u64,
    entry: u64,
    /// … and what was found: the innermost frame, and its entry; 0 so far.
    found: [u64; 2],
    /// The one that is loaded.
    interpreter: Interpreter,
}

/// What the next step does.
pub(super) mod state {
    /// Takes a native frame.
    pub(in super::super) const OUTSIDE: u32 = 0;
    /// Goes on towards the innermost frame.
    pub(in super::super) const HOPPING: u32 = 1;
    /// Takes a frame of the list.
    pub(in super::super) const TAKING: u32 = 2;
    /// Goes to the caller of the loop, whose own frame is taken already.
    pub(in super::super) const BEHIND: u32 = 3;
    /// Looks whether an entry of the list of threads is the thread's own.
    pub(in super::super) const COMPARING: u32 = 4;
    /// Goes to the next entry.
    pub(in super::super) const SEARCHING: u32 = 5;
    /// Begins with the calls of an interpreter without a native walk.
    pub(in super::super) const ALONE: u32 = 6;
    /// Goes to the first interpreter of all, to look for another entry of this thread.
    pub(in super::super) const FIRST: u32 = 7;
    /// Goes to the first entry of an interpreter.
    pub(in super::super) const ENTRIES: u32 = 8;
    /// Looks whether an entry is this thread's.
    pub(in super::super) const OWN: u32 = 9;
    /// Goes on from an entry towards its innermost frame.
    pub(in super::super) const WAY: u32 = 10;
    /// Goes to the next entry.
    pub(in super::super) const LINK: u32 = 11;
    /// Goes to the next interpreter.
    pub(in super::super) const NEXT: u32 = 12;
}

impl Calls {
    /// Forgets an earlier walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.state = state::OUTSIDE;
        self.number = 0;
        self.taken = 0;
        self.begun = 0;
        self.ended = 0;
        self.entered = 0;
    }

    fn slot(&self) -> usize {
        self.number.wrapping_sub(1) as usize & (MAX - 1)
    }

    /// Prepares to look for another entry of this thread.
    #[inline(always)]
    fn look_for_others(&mut self) {
        self.state = state::FIRST;
        self.searched = 0;
        self.found = [0; 2];
    }

    /// Remembers that frames are taken from an entry.
    #[inline(always)]
    fn mark(&mut self, entry: u64) {
        self.entries[self.entered as usize & (MAX_ENTRIES - 1)] = entry;
        self.entered += 1;
    }

    /// Whether frames were taken from an entry.
    #[inline(always)]
    fn is_marked(&self, entry: u64) -> bool {
        let mut marked = false;
        let mut index = 0;
        while index < MAX_ENTRIES {
            marked |= (index as u32) < self.entered && self.entries[index] == entry;
            index += 1;
        }
        marked
    }
}

/// Whether `pc` lies in the loop of the interpreter that belongs to the current mapping.
#[inline(always)]
pub(super) fn is_loop<M: Machine>(walk: &mut Walk, machine: &M, pc: u64) -> bool {
    let number = walk.mapping.interpreter as u32;
    if number != walk.calls.number {
        let at = walk.process.interpreters.wrapping_mul(UNIT_WORDS);
        let at = at.wrapping_add(number.wrapping_sub(1).wrapping_mul(WORDS));
        let Some(block) = block(machine, at) else { return false };
        load(&mut walk.calls.interpreter, block, at);
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
        from::LATER => {
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
        state::HOPPING => hop(walk, machine, slot),
        state::COMPARING => compare(walk, machine),
        state::SEARCHING => search(walk, machine, slot),
        state::TAKING => take(walk, machine, slot),
        _ => seek(walk, machine, slot),
    };
    if done.is_none() {
        // What can't be read is no reason to keep silent. Whose the further loops are can't be told any more.
        emit(walk, machine, 0, 0, 0);
        walk.calls.ended |= 1 << slot;
        walk.calls.next[slot] = 0;
        walk.calls.state = state::BEHIND;
    }
}

#[inline(always)]
fn hop<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
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

#[inline(always)]
fn compare<M: Machine>(walk: &mut Walk, machine: &mut M) -> Option<()> {
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

/// One step on the way to an entry of this thread that no frames were taken from.
#[inline(always)]
fn seek<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
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

#[inline(always)]
fn search<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
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

#[inline(always)]
fn take<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let at = walk.calls.next[slot];
    if at == 0 {
        walk.calls.state = state::BEHIND;
        return Some(());
    }
    if walk.calls.taken >= MAX_CALLS {
        return None;
    }
    let frames = walk.calls.interpreter.frames;
    let object = machine.object(at, frames.size)?;
    let part = |offset: u32| object[(offset / 8) as usize & (WORDS_OF_FRAME - 1)];
    let byte = part(frames.end) >> (frames.end % 8 * 8) & 0xff;
    let marked = frames.run != run::ONE && byte as u32 & frames.end_mask >= frames.end_value;
    let caller = part(frames.caller);
    let function = part(frames.function) & frames.function_mask & frame::ADDRESS;
    let place = part(frames.position);
    walk.calls.next[slot] = caller;
    if frames.run == run::ONE || marked {
        walk.calls.state = state::BEHIND;
    }
    if marked && frames.run == run::BEFORE_MARKED {
        return Some(());
    }
    let place = match frames.position_kind {
        position::ADDRESS => place.wrapping_sub(function) as u32,
        _ => (place >> (frames.position % 8 * 8)) as u32,
    };
    let check = match (frames.check, walk.calls.interpreter.check_words) {
        (NO_CHECK, _) => 0,
        (check, 0) => machine.memory(function.wrapping_add(check as u64))? as u32,
        (check, words) => {
            // Masked, as the verifier of 6.1 sees through nothing else.
            let words = words & CHECK_WORDS;
            let object = machine.object(function.wrapping_add(check as u64), words * 8)?;
            fold(&[object[0], object[1], object[2]], words)
        }
    };
    emit(walk, machine, function, check, place);
    walk.calls.taken += 1;
    Some(())
}

#[inline(always)]
fn emit<M: Machine>(walk: &mut Walk, machine: &mut M, function: u64, check: u32, place: u32) {
    let interpreter = (walk.calls.slot() as u64) << frame::INTERPRETER_SHIFT;
    let detail = frame::DETAIL | (check as u64 & frame::CHECK) << 32 | place as u64;
    machine.call(frame::CALL | interpreter | function, detail);
    walk.taken += 1;
    walk.words += 2;
}

/// Copies the description at word `at` of the arena, which lies in `block`.
#[inline(always)]
fn load(interpreter: &mut Interpreter, block: &Block, at: u32) {
    let mut index = 0;
    while index < LOOPS {
        let at = at + index as u32 * 4;
        interpreter.loops[index] = [double(block, at), double(block, at + 2)];
        index += 1;
    }
    let at = at + LOOPS as u32 * 4;
    // Field by field: what is put together first lies on the stack, which is short here.
    let top = &mut interpreter.top;
    top.from = word(block, at);
    top.hops = word(block, at + 1);
    top.next = word(block, at + 2);
    top.thread = word(block, at + 3);
    let mut index = 0;
    while index < HOPS {
        top.offsets[index] = double(block, at + 4 + index as u32 * 2) as i64;
        index += 1;
    }
    let at = at + 4 + HOPS as u32 * 2;
    interpreter.frames = Frames {
        function_mask: double(block, at),
        size: word(block, at + 2),
        caller: word(block, at + 3),
        function: word(block, at + 4),
        position: word(block, at + 5),
        position_kind: word(block, at + 6),
        check: word(block, at + 7),
        run: word(block, at + 8),
        end: word(block, at + 9),
        end_mask: word(block, at + 10),
        end_value: word(block, at + 11),
    };
    let at = at + 12;
    let others = &mut interpreter.others;
    others.head = double(block, at);
    others.next = word(block, at + 2);
    others.entries = word(block, at + 3);
    others.link = word(block, at + 4);
    others.thread = word(block, at + 5);
    others.hop = word(block, at + 6);
    interpreter.check_words = word(block, at + 8);
}

/// Words of four bytes in a description.
const WORDS: u32 = (size_of::<Interpreter>() / 4) as u32;

/// Words of eight bytes in what is looked at of a frame.
const WORDS_OF_FRAME: usize = FRAME_BYTES / 8;

const _: () = assert!(MAX.is_power_of_two() && HOPS.is_power_of_two());
