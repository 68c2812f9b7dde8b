//! What a walk knows of the interpreters that it met.

use crate::abi::interpreter::{Interpreter, MAX, MAX_ENTRIES};

/// Where a walk stands among the frames of interpreters.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::walk) struct InterpreterState {
    /// One of [`phase`].
    pub(in crate::walk) phase: u32,
    /// The interpreter that is loaded, counted from 1; 0 for none.
    pub(super) number: u32,
    /// Hops taken on the way to its innermost frame.
    pub(super) hop: u32,
    /// Frames of interpreters taken so far.
    pub(super) taken: u32,
    /// Bit `n` is set where the list of interpreter `n` was begun.
    pub(super) begun: u32,
    /// Bit `n` is set where interpreter `n` has no further list for this thread, or none that can be told.
    pub(super) ended: u32,
    /// Entries of lists that were looked at.
    pub(super) searched: u32,
    /// How many entries frames were taken from.
    pub(super) entered: u32,
    /// The way so far while hopping.
    pub(super) at: u64,
    /// The next frame of each interpreter; 0 where its list is at its end.
    pub(super) next: [u64; MAX],
    /// The entries that frames were taken from.
    pub(super) entries: [u64; MAX_ENTRIES],
    /// While other entries are looked for: an interpreter, an entry of it …
    pub(super) owner: u64,
    pub(super) entry: u64,
    /// … and what was found: the innermost frame, and its entry; 0 so far.
    pub(super) found: [u64; 2],
    /// The one that is loaded.
    pub(super) loaded: Interpreter,
}

/// What the next step does.
pub(in crate::walk) mod phase {
    /// Takes a native frame.
    pub(in crate::walk) const OUTSIDE: u32 = 0;
    /// Goes on towards the innermost frame.
    pub(in crate::walk) const HOPPING: u32 = 1;
    /// Takes a frame of the list.
    pub(in crate::walk) const TAKING: u32 = 2;
    /// Goes to the caller of the loop, whose own frame is taken already.
    pub(in crate::walk) const BEHIND: u32 = 3;
    /// Looks whether an entry of the list of threads is the thread's own.
    pub(in crate::walk) const COMPARING: u32 = 4;
    /// Goes to the next entry.
    pub(in crate::walk) const SEARCHING: u32 = 5;
    /// Begins with the calls of an interpreter without a native walk.
    pub(in crate::walk) const ALONE: u32 = 6;
    /// Goes to the first interpreter of all, to look for another entry of this thread.
    pub(in crate::walk) const FIRST: u32 = 7;
    /// Goes to the first entry of an interpreter.
    pub(in crate::walk) const ENTRIES: u32 = 8;
    /// Looks whether an entry is this thread's.
    pub(in crate::walk) const OWN: u32 = 9;
    /// Goes on from an entry towards its innermost frame.
    pub(in crate::walk) const WAY: u32 = 10;
    /// Goes to the next entry.
    pub(in crate::walk) const LINK: u32 = 11;
    /// Goes to the next interpreter.
    pub(in crate::walk) const NEXT: u32 = 12;
}

impl InterpreterState {
    /// Forgets an earlier walk.
    #[inline(always)]
    pub(in crate::walk) fn begin(&mut self) {
        self.phase = phase::OUTSIDE;
        self.number = 0;
        self.taken = 0;
        self.begun = 0;
        self.ended = 0;
        self.entered = 0;
    }

    /// The place of what is kept of the interpreter that is loaded.
    pub(super) fn slot(&self) -> usize {
        self.number.wrapping_sub(1) as usize & (MAX - 1)
    }

    /// Prepares to look for another entry of this thread.
    #[inline(always)]
    pub(super) fn look_for_others(&mut self) {
        self.phase = phase::FIRST;
        self.searched = 0;
        self.found = [0; 2];
    }

    /// Remembers that frames are taken from an entry.
    #[inline(always)]
    pub(super) fn mark(&mut self, entry: u64) {
        self.entries[self.entered as usize & (MAX_ENTRIES - 1)] = entry;
        self.entered += 1;
    }

    /// Whether frames were taken from an entry.
    #[inline(always)]
    pub(super) fn is_marked(&self, entry: u64) -> bool {
        let mut marked = false;
        let mut index = 0;
        while index < MAX_ENTRIES {
            marked |= (index as u32) < self.entered && self.entries[index] == entry;
            index += 1;
        }
        marked
    }
}

const _: () = assert!(MAX.is_power_of_two() && MAX_ENTRIES.is_power_of_two());
