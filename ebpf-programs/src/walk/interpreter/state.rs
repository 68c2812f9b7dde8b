//! Interpreter state of a walk.

use super::luajit::LuaStacks;
use super::perl::PerlContexts;
use super::php::PhpState;
use super::ruby::RubyState;
use crate::abi::interpreter::{Interpreter, MAX, MAX_ENTRIES, PARAMETERS};

/// Interpreter state of a walk.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::walk) struct InterpreterState {
    /// One of [`phase`].
    pub(in crate::walk) phase: u32,
    /// Index of the loaded interpreter, from 1; 0 for none.
    pub(super) number: u32,
    /// Number of hops taken towards its innermost frame.
    pub(super) hop: u32,
    /// Number of interpreter frames emitted so far.
    pub(super) taken: u32,
    /// Bit set of the interpreters whose list was started.
    pub(super) begun: u32,
    /// Bit set of the interpreters without a further list for this thread, or with several candidates.
    pub(super) ended: u32,
    /// Number of entries visited by the current search.
    pub(super) searched: u32,
    /// Number of entries whose frames were taken.
    pub(super) entered: u32,
    /// Address reached by the current path.
    pub(super) at: u64,
    /// Address of the next frame of each interpreter; 0 at the end of its list.
    pub(super) next: [u64; MAX],
    /// Address of the outermost frame of each interpreter whose frames are an array.
    pub(super) outermost: [u64; MAX],
    /// Entries whose frames were taken.
    pub(super) entries: [u64; MAX_ENTRIES],
    /// During a search: address of the current interpreter.
    pub(super) owner: u64,
    /// During a search: address of the current entry.
    pub(super) entry: u64,
    /// During a search: the innermost frame that was found, and its entry; 0 for none.
    pub(super) found: [u64; 2],
    /// Description of the loaded interpreter.
    pub(in crate::walk) loaded: Interpreter,
    /// Its [walker](crate::abi::interpreter::walker).
    pub(in crate::walk) walker: u32,
    /// Parameters of its walker; of another one if that has none.
    pub(in crate::walk) parameters: [u64; PARAMETERS],
    /// State of Ruby's walker.
    pub(in crate::walk) ruby: RubyState,
    /// The stacks whose frames LuaJIT's walker takes.
    pub(in crate::walk) lua: LuaStacks,
    /// Position in the contexts of Perl.
    pub(in crate::walk) perl: PerlContexts,
    /// State of PHP's walker.
    pub(in crate::walk) php: PhpState,
}

/// Phases of a walk: the operation of the next step.
pub(in crate::walk) mod phase {
    /// Emits a native frame.
    pub(in crate::walk) const OUTSIDE: u32 = 0;
    /// Takes a hop towards the innermost frame.
    pub(in crate::walk) const HOPPING: u32 = 1;
    /// Emits a frame of the list.
    pub(in crate::walk) const TAKING: u32 = 2;
    /// Unwinds to the caller of the loop, whose own frame is emitted.
    pub(in crate::walk) const BEHIND: u32 = 3;
    /// Compares an entry of the list of threads with the current thread.
    pub(in crate::walk) const COMPARING: u32 = 4;
    /// Reads the address of the next entry in the list of threads.
    pub(in crate::walk) const SEARCHING: u32 = 5;
    /// Starts with the frames of an interpreter, without a native walk.
    pub(in crate::walk) const ALONE: u32 = 6;
    /// Reads the address of the first interpreter, to search for another entry of this thread.
    pub(in crate::walk) const FIRST: u32 = 7;
    /// Reads the address of the first entry of an interpreter.
    pub(in crate::walk) const ENTRIES: u32 = 8;
    /// Compares an entry with the current thread.
    pub(in crate::walk) const OWN: u32 = 9;
    /// Takes a hop from an entry towards its innermost frame.
    pub(in crate::walk) const WAY: u32 = 10;
    /// Reads the address of the next entry of an interpreter.
    pub(in crate::walk) const LINK: u32 = 11;
    /// Reads the address of the next interpreter.
    pub(in crate::walk) const NEXT: u32 = 12;
    /// Finds the ends of an array of frames.
    pub(in crate::walk) const ENDS: u32 = 13;
    /// Visits an instance of a return address that a uretprobe has replaced.
    pub(in crate::walk) const RETURNS: u32 = 14;
}

impl InterpreterState {
    /// Resets the state of a previous walk.
    #[inline(always)]
    pub(in crate::walk) fn begin(&mut self) {
        self.phase = phase::OUTSIDE;
        self.number = 0;
        self.taken = 0;
        self.begun = 0;
        self.ended = 0;
        self.entered = 0;
        self.ruby.begin();
        self.lua.begin();
        self.perl.begin();
        self.php.begin();
    }

    /// Returns the index of the loaded interpreter in arrays.
    pub(in crate::walk) fn slot(&self) -> usize {
        self.number.wrapping_sub(1) as usize & (MAX - 1)
    }

    /// Starts a search for another entry of this thread.
    #[inline(always)]
    pub(super) fn search_others(&mut self) {
        self.phase = phase::FIRST;
        self.searched = 0;
        self.found = [0; 2];
    }

    /// Records that frames of an entry are taken.
    #[inline(always)]
    pub(super) fn mark(&mut self, entry: u64) {
        self.entries[self.entered as usize & (MAX_ENTRIES - 1)] = entry;
        self.entered += 1;
    }

    /// Returns `true` if frames of an entry were taken.
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
