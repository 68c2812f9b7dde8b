//! The contexts of Perl: an array with the index of the last element in each of a list of stacks.
//!
//! ```text
//!   interpreter    … curcop, 8 bytes, curstackinfo …                   the statement, and the innermost stack; variables
//!                                                                      of the file in builds without threads
//!   stack          cxstack 8   prev 16   cxix i32 32
//!   context        type u8 0   oldcop 16   retop 48   old_cxsubix i32 56   cv 72
//!                                                                      104 bytes; types: sub 9, format 10, eval 11
//!   statement      line u32 36   file 48
//! ```
//!
//! The statement of a frame is the one that the next inner context saved. A run ends with a sub that C code called, which
//! has no operation to return to, and at the end of a stack, which C code pushed. A stack without subs, on which C code calls
//! another function in C, has no loop. Each step visits one context.
//!
//! A sub that has no statement yet, because Perl enters it, has line 0: the current statement is the one that called it. So it
//! is in a sub that calls itself, whose code is that of the sub around it, at `old_cxsubix`.
//!
//! | shape of a frame's address | address |
//! | --- | --- |
//! | 0 | the code value of a sub |
//! | 1, 2 | the name of the file: of the main program, of an eval |
//! | 3, 4 | the same in builds without threads, whose statements have the glob of the file instead of its name |
//!
//! The position of a frame is its line.
//!
//! `eval` in code that C called begins another loop, which lasts until that code returns, longer than the eval: no context
//! says where. Both loops have one run. The inner one takes it; the outer one, which follows `S_docatch` on the native stack,
//! is skipped:
//!
//! ```text
//!   native stack   sort, loop (skipped), pp_entertry, S_docatch, loop     contexts   sub, eval, sub
//! ```
//!
//! | parameter | meaning |
//! | --- | --- |
//! | 0 | offset of `curcop` in the interpreter |
//! | 1, 2 | start and end of `S_docatch`, 0 if unknown |
//! | 3 | address of the variable `curcop` in builds without threads, 0 in others; the path leads to the stack then |

use super::frames::emit;
use super::state::phase;
use crate::abi::interpreter::MAX_INTERPRETER_FRAMES;
use crate::abi::record::frame;
use crate::machine::Machine;
use crate::walk::{Walk, identity};

/// Index of the parameter with the address of `curcop`.
const VARIABLE: usize = 3;

/// Size of a context.
const CONTEXT: u64 = 104;

/// Offset of the code value of a sub in its context, and of its first operation in its body.
const SUB_OF_CONTEXT: u64 = 72;
const START: u64 = 40;

/// Types of contexts.
const SUB: u64 = 9;
const FORMAT: u64 = 10;
const EVAL: u64 = 11;
const SORT_BLOCK: u64 = 0;

/// Types of contexts of blocks and loops in a sub, a bit for each.
const IN_SUB: u64 = 0x1fe;

/// Flag of the context of a block of `eval`, or of C code that calls a sub and catches what it throws (`CXp_EVALBLOCK`).
const EVAL_BLOCK: u64 = 1 << 6;

/// Flag of the context of code in a regular expression, which is part of a sub (`CXp_SUB_RE_FAKE`).
const IN_REGEX: u64 = 1 << 7;

/// Shapes of frames.
const MAIN_SHAPE: u64 = 1;
const EVAL_SHAPE: u64 = 2;

/// Added to a shape in builds without threads.
const OF_GLOB: u64 = 2;

/// Position in the contexts of a thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::walk) struct PerlContexts {
    /// Address of the array of contexts; 0 before the first step.
    contexts: u64,
    /// The stack that C code pushed the current one on; 0 for none.
    outer: u64,
    /// The statement of the next frame.
    statement: u64,
    /// Number of contexts that are left.
    left: u32,
    /// 1 if the last frame ended a run.
    is_ended: u32,
    /// 1 if no context of the current stack is that of code in a loop.
    is_bare: u32,
    /// 1 between `S_docatch` and the next outer loop.
    is_caught: u32,
    /// 1 if the current frame is that of a loop that is skipped.
    is_skipped: u32,
}

impl PerlContexts {
    /// Ends the previous walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.contexts = 0;
        self.is_ended = 0;
        self.is_caught = 0;
        self.is_skipped = 0;
    }

    /// Returns `true`, once, if the current frame is that of a loop whose run an inner loop took.
    #[inline(always)]
    pub(in crate::walk) fn skip(&mut self) -> bool {
        let is_skipped = self.is_skipped != 0;
        self.is_skipped = 0;
        is_skipped
    }
}

/// Notes the frame at `pc`, which is that of a loop if `is_loop`. Returns `false` for a loop that is skipped.
#[inline(always)]
pub(super) fn takes_run(walk: &mut Walk, pc: u64, is_loop: bool) -> bool {
    let [_, start, end, ..] = walk.interpreter.parameters;
    let perl = &mut walk.interpreter.perl;
    perl.is_skipped = perl.is_caught & is_loop as u32;
    let is_catch = pc.wrapping_sub(start) < end.wrapping_sub(start);
    perl.is_caught = (is_catch as u32 | perl.is_caught) & !is_loop as u32;
    is_loop && perl.is_skipped == 0
}

/// Visits the next context, and takes its frame if it has one. Returns `None` if it is unreadable, or beyond the limit.
#[inline(always)]
pub(super) fn take<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let interpreter = walk.interpreter.next[slot];
    if interpreter == 0 {
        walk.interpreter.phase = phase::BEHIND;
        return Some(());
    }
    if walk.interpreter.taken >= MAX_INTERPRETER_FRAMES {
        return None;
    }
    let contexts = walk.interpreter.perl;
    if contexts.contexts == 0 {
        let variable = walk.interpreter.parameters[VARIABLE];
        if variable != 0 {
            walk.interpreter.perl.statement = machine.read_memory(variable)?;
            return enter(walk, machine, interpreter);
        }
        let object = machine.read_object(interpreter.wrapping_add(walk.interpreter.parameters[0]), 24)?;
        let (statement, stack) = (object[0], object[2]);
        walk.interpreter.perl.statement = statement;
        return enter(walk, machine, stack);
    }
    if contexts.left == 0 {
        if contexts.outer == 0 {
            walk.interpreter.next[slot] = 0;
            walk.interpreter.phase = phase::BEHIND;
            return emit_code(walk, machine, MAIN_SHAPE);
        }
        if contexts.is_ended | contexts.is_bare == 0 {
            // A block that C code runs, such as that of `sort`.
            walk.interpreter.phase = phase::BEHIND;
        }
        walk.interpreter.perl.is_ended = 0;
        return enter(walk, machine, contexts.outer);
    }
    let at = contexts.contexts.wrapping_add((contexts.left as u64 - 1).wrapping_mul(CONTEXT));
    let object = machine.read_object(at, 80)?;
    let (kind, outer, back, before, function) =
        (object[0] & 15, object[2], object[6], object[7] as u32, object[9]);
    walk.interpreter.perl.left = contexts.left - 1;
    let is_of_c = kind == EVAL && object[0] & EVAL_BLOCK != 0 && back == 0;
    walk.interpreter.perl.is_bare &= (is_of_c || IN_SUB & 1 << kind != 0) as u32;
    if kind == SORT_BLOCK || kind == SUB && object[0] & IN_REGEX != 0 {
        // A sub that it calls last has no operation to return to, either: the loop is the same.
        return Some(());
    }
    if kind != EVAL {
        // C code may call a sub within an eval.
        walk.interpreter.perl.is_ended = 0;
    }
    if kind == SUB || kind == FORMAT {
        let is_innermost = walk.interpreter.taken == 0;
        let is_entered = is_innermost && contexts.statement == outer;
        let function = function & frame::ADDRESS;
        let body = machine.read_memory(function);
        let is_first = is_entered && is_first(machine, contexts.contexts, before, body.unwrap_or(0));
        // C code enters a sub before it begins a loop.
        if back == 0 && !is_first {
            walk.interpreter.perl.is_ended = 1;
            walk.interpreter.phase = phase::BEHIND;
        }
        walk.interpreter.perl.is_bare |= is_first as u32 & contexts.is_bare;
        walk.interpreter.perl.statement = outer;
        let Some(body) = body else {
            // Perl enters or leaves the sub.
            return is_innermost.then_some(());
        };
        let line = match is_first {
            true => 0,
            false => machine.read_memory(contexts.statement.wrapping_add(36))? as u32,
        };
        let check = match walk.checked.get(function) {
            Some(check) => check as u32,
            None => {
                let check = identity::perl::sub(machine, body);
                walk.checked.keep(function, check as u64);
                check
            }
        };
        emit(walk, machine, function, check, line);
        walk.interpreter.taken += 1;
    } else if kind == EVAL {
        emit_code(walk, machine, EVAL_SHAPE)?;
        walk.interpreter.perl.statement = outer;
    }
    Some(())
}

/// Returns `true` if the sub around the innermost one has other code, so that the statement that called it isn't its own.
#[inline(always)]
fn is_first<M: Machine>(machine: &mut M, contexts: u64, index: u32, body: u64) -> bool {
    if index >> 31 != 0 {
        return true;
    }
    let at = contexts.wrapping_add((index as u64).wrapping_mul(CONTEXT)).wrapping_add(SUB_OF_CONTEXT);
    let around = machine.read_memory(at).and_then(|sub| machine.read_memory(sub));
    let mut start = |body: u64| machine.read_memory(body.wrapping_add(START));
    around.and_then(&mut start) != start(body)
}

/// Begins with the contexts of a stack.
#[inline(always)]
fn enter<M: Machine>(walk: &mut Walk, machine: &mut M, stack: u64) -> Option<()> {
    let object = machine.read_object(stack, 40)?;
    let (contexts, outer, last) = (object[1], object[2], object[4] as u32);
    let perl = &mut walk.interpreter.perl;
    perl.contexts = contexts;
    perl.outer = outer;
    perl.is_bare = 1;
    // The index of the last context is -1 if there is none.
    perl.left = if last >> 31 == 0 { last + 1 } else { 0 };
    // Without contexts there is nothing to read.
    (contexts != 0).then_some(())
}

/// Emits a frame of code that is no sub, by the file of its statement.
#[inline(always)]
fn emit_code<M: Machine>(walk: &mut Walk, machine: &mut M, shape: u64) -> Option<()> {
    let object = machine.read_object(walk.interpreter.perl.statement, 56)?;
    let (line, file) = ((object[4] >> 32) as u32, object[6] & ((1 << frame::SHAPE_SHIFT) - 1));
    let is_glob = walk.interpreter.parameters[VARIABLE] != 0;
    let check = identity::perl::file(machine, file, is_glob, &mut walk.checked.text)?;
    let shape = shape + is_glob as u64 * OF_GLOB;
    emit(walk, machine, file | shape << frame::SHAPE_SHIFT, check, line);
    walk.interpreter.taken += 1;
    Some(())
}
