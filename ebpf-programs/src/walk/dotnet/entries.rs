//! Unwind entries of a method or a precompiled image.

use super::codes::{IS_BEHIND_PROLOGUE, IS_HANDLER, IS_NEAR_PROLOGUE, NEAR};
use super::phase;
use crate::abi::dotnet::{ENTRY, MAX_ENTRIES};
use crate::machine::Machine;
use crate::walk::Walk;
use crate::walk::identity::dotnet as identity;

/// Number of probes of a search in one step.
const PROBES: u32 = 4;

/// Begins to search `count` unwind entries.
#[inline(always)]
pub(super) fn enter_entries(walk: &mut Walk, entries: u64, count: u64) {
    if count == 0 || count > MAX_ENTRIES {
        return;
    }
    (walk.dotnet.entries, walk.dotnet.first, walk.dotnet.last) = (entries, 0, count);
    walk.dotnet.enter(phase::ENTRIES);
}

/// Takes some probes of a binary search for the unwind entry that covers `pc`.
#[inline(always)]
pub(super) fn search<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    let distance = pc.wrapping_sub(walk.dotnet.base);
    let mut probe = 0;
    while probe < PROBES {
        let (first, last) = (walk.dotnet.first, walk.dotnet.last);
        if first >= last {
            return walk.dotnet.enter(phase::STUB);
        }
        let middle = (first + last) / 2;
        let at = walk.dotnet.entries.wrapping_add(middle * ENTRY);
        let Some(word) = machine.read_memory(at) else { return walk.dotnet.enter(phase::STUB) };
        let (begin, end) = (word & 0xffff_ffff, word >> 32);
        if distance < begin {
            walk.dotnet.last = middle;
        } else if distance >= end {
            walk.dotnet.first = middle + 1;
        } else {
            let is_handler = walk.dotnet.start != 0 && middle != 0;
            return enter_codes(walk, machine, pc, at, begin, is_handler);
        }
        probe += 1;
    }
}

/// Reads the beginning of the unwind codes of an entry.
#[inline(always)]
fn enter_codes<M: Machine>(
    walk: &mut Walk,
    machine: &mut M,
    pc: u64,
    entry: u64,
    begin: u64,
    is_handler: bool,
) {
    walk.dotnet.enter(phase::STUB);
    let Some(codes) = machine.read_memory(entry.wrapping_add(8)) else { return };
    let codes = walk.dotnet.base.wrapping_add(codes & 0xffff_ffff);
    let Some(head) = machine.read_memory(codes) else { return };
    let begin = walk.dotnet.base.wrapping_add(begin);
    if walk.dotnet.start == 0 {
        let Some(check) = identity::code(machine, begin.wrapping_add(8), 0) else { return };
        walk.dotnet.check = check;
    }
    let within = pc.wrapping_sub(begin);
    let prologue = head >> 8 & 0xff;
    walk.dotnet.distance = within as u32;
    walk.dotnet.flags = if within < prologue {
        0
    } else if within - prologue < NEAR {
        IS_BEHIND_PROLOGUE | IS_NEAR_PROLOGUE
    } else {
        IS_BEHIND_PROLOGUE
    };
    walk.dotnet.flags |= if is_handler { IS_HANDLER } else { 0 };
    (walk.dotnet.operands, walk.dotnet.bytes) = (0, 0);
    walk.dotnet.fp_distance = (head >> 28 & 15) * 16;
    walk.dotnet.last = head >> 16 & 0xff;
    (walk.dotnet.first, walk.dotnet.codes) = (0, codes.wrapping_add(4));
    walk.dotnet.enter(phase::CODES);
}
