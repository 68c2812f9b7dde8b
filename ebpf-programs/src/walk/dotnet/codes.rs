//! Unwind codes: from those of an entry to the rule of an address.

use super::{DotnetState, phase};
use crate::abi::table::Rule;
use crate::machine::Machine;
use crate::walk::Walk;
use crate::walk::identity::dotnet as identity;

/// The prologue saves the frame pointer.
pub(super) const SAVES_FP: u64 = 1;

/// The prologue has saved the frame pointer.
pub(super) const HAS_SAVED_FP: u64 = 2;

/// `pc` is behind the prologue.
pub(super) const IS_BEHIND_PROLOGUE: u64 = 4;

/// The frame pointer is not the first word that the prologue saves.
pub(super) const IS_MISPLACED: u64 = 8;

/// The rule is that of a method that is compiled while the program runs.
pub(super) const PROOF_METHOD: u8 = 16;

/// The frame pointer is set from the stack pointer.
pub(super) const SETS_FP: u64 = 32;

/// `pc` is at most [`NEAR`] bytes behind the prologue: the frame pointer may be set by the next instruction.
pub(super) const IS_NEAR_PROLOGUE: u64 = 64;

/// `pc` is in a handler of exceptions, behind the code of its method; in .NET 10 it doesn't save the frame pointer.
pub(super) const IS_HANDLER: u64 = 128;

/// Maximum number of bytes from the last instruction that has an unwind code to the one that sets the frame pointer.
pub(super) const NEAR: u64 = 16;

/// Number of no table; the cache of rules holds rules under it, for each process.
pub(super) const CACHED: u32 = 1 << 31;

/// Number of unwind codes that are read in one step.
const CODES: u32 = 4;

/// Number of the frame pointer in unwind codes.
const ENCODED_FP: u64 = 5;

/// Reads some unwind codes: they are those of the prologue's instructions, the last one first. Returns the rule behind the last one.
#[inline(always)]
pub(super) fn codes<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Option<Rule> {
    let count = walk.dotnet.last;
    let word = if walk.dotnet.first < count { machine.read_memory(walk.dotnet.codes) } else { Some(0) };
    let Some(word) = word else {
        walk.dotnet.enter(phase::STUB);
        return None;
    };
    let mut index = 0;
    while index < CODES {
        if walk.dotnet.first < count {
            code(walk, word >> (16 * index) & 0xffff);
        }
        walk.dotnet.first += 1;
        index += 1;
    }
    walk.dotnet.codes = walk.dotnet.codes.wrapping_add(8);
    if walk.dotnet.first < count {
        return None;
    }
    let rule = rule(walk, machine, pc);
    if rule.is_none() {
        walk.dotnet.enter(phase::STUB);
    }
    rule
}

/// Returns the rule of `pc` by the codes that were read, and caches it. `None` if the code is unreadable.
#[inline(always)]
fn rule<M: Machine>(walk: &Walk, machine: &mut M, pc: u64) -> Option<Rule> {
    let state = &walk.dotnet;
    let is_method = state.start != 0;
    let position = if is_method { pc.wrapping_sub(state.start) as u32 } else { state.distance };
    let proof = identity::code(machine, pc, state.check as u64)?;
    let distance = state.bytes.wrapping_add(8).wrapping_sub(state.fp_distance);
    let is_moved = state.flags & (SETS_FP | IS_BEHIND_PROLOGUE) == SETS_FP | IS_BEHIND_PROLOGUE;
    let bytes = if is_moved { distance } else { state.bytes };
    let rule = Rule {
        cfa: state.flags as u8 | if is_method { PROOF_METHOD } else { 0 },
        register: proof as u8,
        ra: (proof >> 8) as u8,
        fp: (proof >> 16) as u8,
        offset: bytes as i32,
        aux: state.check as i32,
        fp_offset: position as i32,
    };
    machine.cache_rule(walk.process.mappings | CACHED, pc, &rule);
    Some(rule)
}

/// Adds the effect of one unwind code, or an operand of the previous one.
#[inline(always)]
fn code(walk: &mut Walk, code: u64) {
    const PUSH: u64 = 0;
    const ALLOCATE: u64 = 1;
    const ALLOCATE_SMALL: u64 = 2;
    const SET_FP: u64 = 3;
    const SET_FP_LARGE: u64 = 11;
    /// Number of operands, four bits for each kind of code.
    const OPERANDS: u64 = 0x2021_0121_0010;
    let state = &mut walk.dotnet;
    if state.operands != 0 {
        return operand(state, code);
    }
    let (kind, detail) = (code >> 8 & 15, code >> 12 & 15);
    let is_executed = code & 0xff <= state.distance as u64;
    let operands = (OPERANDS >> (4 * kind) & 15) as u32;
    state.operands = if kind == ALLOCATE && detail != 0 { 2 } else { operands };
    state.operand = operand::OTHER;
    if kind == PUSH && detail == ENCODED_FP {
        state.flags |= if is_executed { SAVES_FP | HAS_SAVED_FP } else { SAVES_FP };
        // Where it is saved is known if it is the first instruction.
        let is_first = state.first + 1 == state.last;
        state.flags = state.flags & !IS_MISPLACED | if is_first { 0 } else { IS_MISPLACED };
    }
    if !is_executed {
        return;
    }
    match kind {
        PUSH => state.bytes += 8,
        ALLOCATE_SMALL => state.bytes += detail * 8 + 8,
        ALLOCATE if detail != 0 => state.operand = operand::LOW,
        ALLOCATE => state.operand = operand::WORDS,
        SET_FP => state.flags |= SETS_FP,
        SET_FP_LARGE => {
            state.flags |= SETS_FP;
            state.operand = operand::FP_LOW;
        }
        _ => {}
    }
}

/// Adds the effect of an operand of the previous unwind code.
#[inline(always)]
fn operand(state: &mut DotnetState, code: u64) {
    state.operands -= 1;
    match state.operand {
        operand::WORDS => state.bytes += code * 8,
        operand::LOW => state.bytes += code,
        operand::HIGH => state.bytes += code << 16,
        operand::FP_LOW => state.fp_distance = code * 16,
        operand::FP_HIGH => state.fp_distance += code << 20,
        _ => {}
    }
    let is_low = state.operand == operand::LOW || state.operand == operand::FP_LOW;
    state.operand = if is_low { state.operand + 1 } else { operand::OTHER };
}

/// Kinds of operands.
mod operand {
    pub(super) const OTHER: u32 = 0;
    /// A number of words.
    pub(super) const WORDS: u32 = 1;
    /// Low and high half of a number of bytes.
    pub(super) const LOW: u32 = 2;
    pub(super) const HIGH: u32 = 3;
    /// Low and high half of the distance of the frame pointer, in units of 16 bytes.
    pub(super) const FP_LOW: u32 = 4;
    pub(super) const FP_HIGH: u32 = 5;
}
