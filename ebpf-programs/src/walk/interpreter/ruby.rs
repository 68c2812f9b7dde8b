//! The control frames of Ruby: an array that grows down, in which the caller of a frame is the next element.
//!
//! ```text
//!   control frame   pc | sp | instruction sequence | self | ep | …
//!   environment     method entry or 0 | parent | flags                 ep points to the flags
//! ```
//!
//! A step reads a control frame and the identity of its code. The method that it belongs to is a further step; for a
//! block one for each environment between its own and that of the method.
//!
//! While the garbage collector runs, native frames that the innermost control frame called are its: a frame of its own stands
//! between them.
//!
//! Compiled code works on the same control frames: its frame on the native stack is skipped, and the loop's caller takes
//! them.

use super::frames::emit;
use super::state::phase;
use crate::abi::interpreter::{MAX_INTERPRETER_FRAMES, fold};
use crate::abi::record::frame;
use crate::abi::ruby::{
    BODY, IDENTITY_SHIFT, PARAMETER_CALLERS, PARAMETER_COLLECTION, PARAMETER_FRAME_SIZE, PARAMETER_STRING,
    control_frame, flag, imemo, kind, method_entry,
};
use crate::machine::Machine;
use crate::walk::Walk;
use crate::walk::identity::ruby::Body;

/// Maximum number of environments between that of a block and that of its method.
const MAX_PARENTS: u32 = 32;

/// Size of the words at the end of an environment: method entry, parent, flags.
const ENVIRONMENT: u32 = 24;

/// State of a walk through Ruby's frames: the frame whose method entry is searched for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::walk) struct RubyState {
    /// 1 after a frame of the loop, whose caller takes no frames.
    is_inside: u32,
    /// Number of words of the native stack that were searched for the return address of compiled code.
    pub(in crate::walk) words: u32,
    /// 1 after a frame of compiled code.
    pub(in crate::walk) is_compiled: u32,
    /// 1 after the flag of the garbage collector was read.
    is_checked: u32,
    /// Number of steps of the search, from 1; 0 if there is no such frame.
    search: u32,
    /// 1 if the frame is the last one of its run.
    is_last: u32,
    /// Check of its code.
    identity: u32,
    position: u32,
    /// Its code, 0 for none. Recursion finds it unchanged: the thread doesn't run during a walk.
    sequence: u64,
    /// The method entry that was read last, 0 for none.
    method: u64,
    /// The check of that method.
    check: u32,
    reserved: u32,
    /// The words of the current environment.
    entry: u64,
    parent: u64,
    flags: u64,
}

impl RubyState {
    /// Ends the search of a previous walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.search = 0;
        self.is_inside = 0;
        self.words = 0;
        self.is_compiled = 0;
        self.is_checked = 0;
        self.sequence = 0;
        self.method = 0;
    }
}

/// Returns `true` if the frame at `pc`, in one of the loop's ranges, takes a run of frames: the loop, or its caller if that
/// runs without it, to handle an exception or in compiled code.
#[inline(always)]
pub(super) fn takes_run(walk: &mut Walk, pc: u64) -> bool {
    let parameters = &walk.interpreter.parameters;
    let is_in = |at: usize| pc.wrapping_sub(parameters[at]) < parameters[at + 1].wrapping_sub(parameters[at]);
    let is_caller = is_in(PARAMETER_CALLERS) | is_in(PARAMETER_CALLERS + 2);
    let was_inside = walk.interpreter.ruby.is_inside != 0;
    walk.interpreter.ruby.is_inside = !is_caller as u32;
    !(is_caller && was_inside)
}

/// Takes the next control frame, or a step of the search for its method. Returns `None` if it is unreadable, or beyond
/// the limit.
#[inline(always)]
pub(super) fn take<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let at = walk.interpreter.next[slot];
    if at == 0 {
        walk.interpreter.ruby.search = 0;
        walk.interpreter.phase = phase::BEHIND;
        return Some(());
    }
    if walk.interpreter.ruby.search != 0 {
        return search(walk, machine);
    }
    if walk.interpreter.taken >= MAX_INTERPRETER_FRAMES {
        return None;
    }
    if walk.interpreter.ruby.is_checked == 0 {
        walk.interpreter.ruby.is_checked = 1;
        if walk.flags & frame::EXACT == 0 && is_collecting(walk, machine) {
            emit(walk, machine, kind::COLLECTION, 0, 0);
            return Some(());
        }
    }
    let object = machine.read_object(at, control_frame::READ)?;
    let pc = object[control_frame::PC / 8];
    let sequence = object[control_frame::SEQUENCE / 8];
    let environment = object[control_frame::ENVIRONMENT / 8];
    let size = walk.interpreter.parameters[PARAMETER_FRAME_SIZE] & 0xff;
    let last = object[(size / 8).wrapping_sub(1) as usize & 7];
    let object = machine.read_object(environment.wrapping_sub(16), ENVIRONMENT)?;
    let [entry, parent, flags] = [object[0], object[1], object[2]];
    walk.interpreter.next[slot] = at.wrapping_add(size);
    match flags & flag::TYPE {
        flag::DUMMY => {
            walk.interpreter.next[slot] = 0;
            walk.interpreter.phase = phase::BEHIND;
            return Some(());
        }
        // Its native frame stands for it.
        flag::C_BLOCK => {
            end(walk, flags & flag::FINISH != 0);
            return Some(());
        }
        flag::FUNCTION => {
            let object = machine.read_object(entry, method_entry::READ)?;
            let words = [method_entry::DEFINITION, method_entry::CALLED, method_entry::OWNER];
            let check = fold(&[object[words[0] / 8], object[words[1] / 8], object[words[2] / 8]], 3);
            emit(walk, machine, (entry | kind::FUNCTION) & frame::ADDRESS, check, 0);
            walk.interpreter.taken += 1;
            end(walk, flags & flag::FINISH != 0);
            return Some(());
        }
        _ => {}
    }
    let is_first = walk.interpreter.taken == 0;
    let is_leaf = walk.flags & frame::EXACT != 0;
    let mut is_early = false;
    if is_first || sequence != walk.interpreter.ruby.sequence {
        let of_sequence = machine.read_memory(sequence.wrapping_add(BODY))?;
        let data = walk.interpreter.parameters[PARAMETER_STRING];
        let body = Body::read(machine, of_sequence, data, &mut walk.checked.text)?;
        // The frame of a loop that hasn't begun: the native loop that was reached is that of its caller.
        let ruby = &mut walk.interpreter.ruby;
        let is_called = ruby.is_inside != 0 || ruby.is_compiled != 0 && last == 0;
        is_early = is_first && !is_leaf && is_called && pc == body.instructions;
        ruby.identity = body.check;
        ruby.sequence = sequence;
    }
    let ruby = &mut walk.interpreter.ruby;
    ruby.search = 1;
    ruby.is_last = (flags & flag::FINISH != 0 && !is_early) as u32;
    ruby.position = pc as u32;
    ruby.entry = entry;
    ruby.parent = parent;
    ruby.flags = flags;
    // Others take a step for each environment.
    if flags & flag::TYPE == flag::METHOD { search(walk, machine) } else { Some(()) }
}

/// Returns `true` if the garbage collector runs.
#[inline(always)]
fn is_collecting<M: Machine>(walk: &Walk, machine: &mut M) -> bool {
    let [at, mask] = [0, 1].map(|index| walk.interpreter.parameters[PARAMETER_COLLECTION + index]);
    at != 0 && machine.read_memory(at).unwrap_or(0) & mask != 0
}

/// Takes a step of the search for the method of a frame.
#[inline(always)]
fn search<M: Machine>(walk: &mut Walk, machine: &mut M) -> Option<()> {
    let found = walk.interpreter.ruby;
    let is_method = found.flags & flag::TYPE == flag::METHOD;
    let is_defined = found.flags & flag::DEFINED != 0;
    let is_local = found.flags & flag::LOCAL != 0;
    if !is_method && !is_defined && !is_local && found.search < MAX_PARENTS {
        let object = machine.read_object((found.parent & !3).wrapping_sub(16), ENVIRONMENT)?;
        let ruby = &mut walk.interpreter.ruby;
        [ruby.entry, ruby.parent, ruby.flags] = [object[0], object[1], object[2]];
        ruby.search += 1;
        return Some(());
    }
    let kind = match (is_method, is_defined) {
        (true, _) => kind::METHOD,
        (_, true) if found.search == 1 => kind::DEFINED,
        (_, true) => kind::METHOD,
        _ => kind::PLAIN,
    };
    let mut check = found.identity;
    if kind != kind::PLAIN {
        if found.entry != found.method || found.entry == 0 {
            let object = machine.read_object(found.entry, 16)?;
            let [head, inner] = [object[0], object[1]];
            let is_variables = head >> imemo::SHIFT & imemo::TYPE == imemo::VARIABLES;
            let ruby = &mut walk.interpreter.ruby;
            ruby.method = found.entry;
            ruby.check = (if is_variables { inner } else { found.entry } >> 3) as u32;
        }
        check ^= walk.interpreter.ruby.check;
    }
    let identity = (found.identity as u64 & 0xff) << IDENTITY_SHIFT;
    let address = (found.sequence | kind) & ((1 << IDENTITY_SHIFT) - 1) | identity;
    emit(walk, machine, address, check, found.position);
    walk.interpreter.taken += 1;
    walk.interpreter.ruby.search = 0;
    end(walk, found.is_last != 0);
    Some(())
}

/// Ends the run if the frame was its last one.
#[inline(always)]
fn end(walk: &mut Walk, is_last: bool) {
    if is_last {
        walk.interpreter.phase = phase::BEHIND;
    }
}
