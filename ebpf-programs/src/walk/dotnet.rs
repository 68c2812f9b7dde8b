//! Frames of .NET's code; see [`abi::dotnet`](crate::abi::dotnet).
//!
//! ```text
//!   START ──► cached, or FRAGMENT ──► NIBBLES ──► ENTRIES ──► CODES: rule, cached
//!     ▲          map of ranges          │           ▲           │
//!     │                                 │ precompiled ┘         │
//!     └──────── the caller ◄────────────┴── STUB                ▼
//!                    ▲────────────────────────────── emits the frame
//! ```
//!
//! Unwind codes are those of Windows: each says how many bytes an instruction of the prologue puts on the stack, and how far the frame
//! pointer is from the stack pointer if the stack pointer moves behind the prologue. Half of all precompiled methods don't save the frame
//! pointer. The others save it first and let it point there. A handler of exceptions has the frame pointer of its method: the method's
//! caller follows, and the runtime's frames between both are left out. In precompiled code of .NET 10 nothing tells a handler from a
//! method, and these frames and the method's own are shown.
//!
//! | at | canonical frame address |
//! | --- | --- |
//! | prologue | rsp + 8 + bytes of the instructions before |
//! | method that moves the stack pointer | rbp + 8 + bytes of the prologue - distance |
//! | handler of exceptions: rbp is above its frame | rbp + 16 |
//! | other method | rsp + 8 + bytes of the prologue |
//! | `pop …; ret` | rsp + 8 + bytes popped |
//! | jump behind `pop` or `add rsp, n`; a stub | rsp + 8 |

use super::arch::{Arch, CallInstruction};
use super::frame_pointer::is_frame;
use super::identity::dotnet as identity;
use super::native::known;
use super::{Caller, Walk, is_null};
use crate::abi::dotnet::{
    ENTRY, FRAGMENT, HEADER_ENTRIES, HEAP, HEAP_WORDS, LEVELS, MAX_ENTRIES, MAX_FRAGMENTS, SECTION,
    SECTION_WORDS, parameter, shape,
};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::abi::table::Rule;
use crate::machine::Machine;

/// State of the walker.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DotnetState {
    /// One of [`phase`].
    phase: u32,
    /// Number of steps of the current phase.
    steps: u32,
    /// Address of a fragment, or of the word of nibbles that is read next.
    at: u64,
    /// Start of the range section: unwind entries are relative to it.
    base: u64,
    /// First and last index of a search.
    first: u64,
    last: u64,
    /// The unwind entries that are searched.
    entries: u64,
    /// Start of the method; 0 for precompiled code.
    start: u64,
    /// Nibbles of the current word that are left, lowest next, and the offset of the bytes that the lowest one stands for.
    nibbles: u64,
    offset: u64,
    /// Address that the nibbles begin with.
    heap: u64,
    /// Unwind codes: number left that belong to the previous one, its kind, and bytes of the instructions before `pc`.
    operands: u32,
    operand: u32,
    bytes: u64,
    /// Distance from the stack pointer to the frame pointer when it is set.
    fp_distance: u64,
    /// [`SAVES_FP`] and others.
    flags: u64,
    /// Address of the unwind codes, and number of those that were read.
    codes: u64,
    /// Check of the method, or hash of its code.
    check: u32,
    /// Distance from the start of the entry.
    distance: u32,
}

/// Operations of the next step.
mod phase {
    /// Looks at a new frame.
    pub(super) const START: u32 = 0;
    /// Searches the fragments of a range of addresses.
    pub(super) const FRAGMENT: u32 = 1;
    /// Searches the nibbles for the start of the method.
    pub(super) const NIBBLES: u32 = 2;
    /// Searches the unwind entries.
    pub(super) const ENTRIES: u32 = 3;
    /// Reads the unwind codes.
    pub(super) const CODES: u32 = 4;
    /// Code that the runtime generates.
    pub(super) const STUB: u32 = 5;
    /// No code of a method.
    pub(super) const UNKNOWN: u32 = 6;
}

/// The prologue saves the frame pointer.
const SAVES_FP: u64 = 1;

/// It has been saved.
const HAS_SAVED_FP: u64 = 2;

/// `pc` is behind the prologue.
const IS_BEHIND_PROLOGUE: u64 = 4;

/// Number of probes of a search in one step.
const PROBES: u32 = 4;

/// Number of words of nibbles, 256 bytes of code each, that are read in one step; two at a time.
const NIBBLE_WORDS: u32 = 8;

/// Maximum number of steps through nibbles: methods of up to 256 KiB.
const MAX_NIBBLE_STEPS: u32 = 128;

/// Number of unwind codes that are read in one step.
const CODES: u32 = 4;

/// Number of the frame pointer in unwind codes.
const ENCODED_FP: u64 = 5;

impl DotnetState {
    /// Resets the state of a previous walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.phase = phase::START;
    }

    #[inline(always)]
    fn enter(&mut self, phase: u32) {
        (self.phase, self.steps) = (phase, 0);
    }
}

/// Takes a step at the frame at `pc`. Returns `false` if it is no code of .NET.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    walk.dotnet.steps += 1;
    match walk.dotnet.phase {
        phase::START => {
            if let Some(rule) = cached(walk, machine, pc) {
                return unwind::<A, M>(walk, machine, pc, &rule);
            }
            walk.dotnet.enter(phase::UNKNOWN);
            levels(walk, machine, pc);
        }
        phase::FRAGMENT => fragment(walk, machine, pc),
        phase::NIBBLES => nibbles(walk, machine, pc),
        phase::ENTRIES => search(walk, machine, pc),
        phase::CODES => {
            if let Some(rule) = codes(walk, machine, pc) {
                return unwind::<A, M>(walk, machine, pc, &rule);
            }
        }
        other => return stub::<A, M>(walk, machine, pc, other == phase::STUB),
    }
    Ok(true)
}

#[inline(always)]
fn parameter(walk: &Walk, index: usize) -> u64 {
    walk.interpreter.parameters[index]
}

/// Finds the first fragment of the addresses around `pc`.
#[inline(always)]
fn levels<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    let mut at = parameter(walk, parameter::MAP);
    let mut level = 0;
    while level < LEVELS.len() {
        let index = pc >> LEVELS[level] & 0xff;
        match machine.read_memory(at.wrapping_add(index * 8)) {
            Some(next) if !is_null(next) => at = next & !1,
            _ => return,
        }
        level += 1;
    }
    walk.dotnet.at = at;
    walk.dotnet.enter(phase::FRAGMENT);
}

/// Looks at one fragment.
#[inline(always)]
fn fragment<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    let is_last = walk.dotnet.steps > MAX_FRAGMENTS || is_null(walk.dotnet.at);
    let words = if is_last { None } else { machine.read_object(walk.dotnet.at, FRAGMENT) };
    let Some([next, begin, end, section]) = words.map(|words| [words[0], words[1], words[2], words[3]])
    else {
        return walk.dotnet.enter(phase::UNKNOWN);
    };
    if pc < begin || pc >= end {
        walk.dotnet.at = next & !1;
        return;
    }
    walk.dotnet.enter(phase::UNKNOWN);
    enter_section(walk, machine, pc, section & !1);
}

/// Begins to search a range section: the nibbles of a code heap, or the entries of an image.
#[inline(always)]
fn enter_section<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64, section: u64) {
    let [start, module, heap] = SECTION_WORDS;
    let Some(words) = machine.read_object(section, SECTION) else { return };
    let (start, module, heap) = (words[start], words[module], words[heap]);
    walk.dotnet.base = start;
    if !is_null(module) {
        let offset = parameter(walk, parameter::PRECOMPILED);
        let Some(data) = machine.read_memory(module.wrapping_add(offset)) else { return };
        let at = data.wrapping_add(parameter(walk, parameter::ENTRIES));
        let Some([entries, count]) = machine.read_object(at, 16).map(|words| [words[0], words[1]]) else {
            return;
        };
        walk.dotnet.start = 0;
        return enter_entries(walk, entries, count as u32 as u64);
    }
    walk.dotnet.enter(phase::STUB);
    if is_null(heap) {
        return;
    }
    let Some(words) = machine.read_object(heap, HEAP) else { return };
    let [first, end, base, map] = HEAP_WORDS;
    let (first, end, base, map) = (words[first], words[end], words[base], words[map]);
    if pc < first || pc >= end || pc < base {
        return;
    }
    walk.dotnet.heap = base;
    let bucket = pc.wrapping_sub(base) >> 5;
    walk.dotnet.at = map.wrapping_add(bucket >> 3 << 2);
    walk.dotnet.offset = pc.wrapping_sub(base) & !255;
    walk.dotnet.enter(phase::NIBBLES);
}

/// Searches some words of nibbles, backwards, for the start of the method.
///
/// A word has eight, that of the lowest address first: 0, or 1 and the offset of a start within 32 bytes, in units of four. If the last
/// one is 9 or more, the word is the distance of a start.
#[inline(always)]
fn nibbles<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
    let has_distances = parameter(walk, parameter::HAS_DISTANCES) != 0;
    if walk.dotnet.steps > MAX_NIBBLE_STEPS {
        return walk.dotnet.enter(phase::STUB);
    }
    let mut read = 0;
    while read < NIBBLE_WORDS {
        let Some(word) = machine.read_memory(walk.dotnet.at) else {
            return walk.dotnet.enter(phase::STUB);
        };
        let word = word & 0xffff_ffff;
        let offset = walk.dotnet.offset;
        let within = pc.wrapping_sub(walk.dotnet.heap).wrapping_sub(offset);
        let is_distance = has_distances && word & 15 > 8;
        let start =
            if is_distance { (word & !15) + ((word & 15) - 9) * 4 } else { start_in(word, offset, within) };
        if start != u64::MAX {
            let start = walk.dotnet.heap.wrapping_add(start);
            return enter_method(walk, machine, pc, start);
        }
        if offset < 256 {
            return walk.dotnet.enter(phase::STUB);
        }
        walk.dotnet.offset = offset - 256;
        walk.dotnet.at = walk.dotnet.at.wrapping_sub(4);
        read += 1;
    }
}

/// Returns the last start in a word of nibbles that is not behind `within` bytes of the addresses that it stands for; `u64::MAX` if there
/// is none. The addresses begin at `offset`.
#[inline(always)]
fn start_in(word: u64, offset: u64, within: u64) -> u64 {
    let (mut word, mut bucket) = (word, 7);
    if within < 256 {
        bucket = within >> 5;
        word >>= (28 - 4 * bucket) & 31;
        // A start behind `pc` in the same 32 bytes is none.
        if word & 15 > (within & 31) / 4 + 1 {
            word &= !15;
        }
    }
    let mut shifted = 0;
    if word & 0xffff == 0 {
        (word, shifted) = (word >> 16, 4);
    }
    if word & 0xff == 0 {
        (word, shifted) = (word >> 8, shifted + 2);
    }
    if word & 15 == 0 {
        (word, shifted) = (word >> 4, shifted + 1);
    }
    let nibble = word & 15;
    if nibble == 0 || shifted > bucket {
        return u64::MAX;
    }
    offset + (bucket - shifted) * 32 + (nibble - 1) * 4
}

/// Reads the header of the method whose code begins at `start`.
#[inline(always)]
fn enter_method<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64, start: u64) {
    walk.dotnet.enter(phase::STUB);
    if pc < start {
        return;
    }
    let Some(method) = identity::method(machine, start) else { return };
    walk.dotnet.start = start;
    walk.dotnet.check = method.check;
    enter_entries(walk, method.header.wrapping_add(HEADER_ENTRIES), method.entries);
}

#[inline(always)]
fn enter_entries(walk: &mut Walk, entries: u64, count: u64) {
    if count == 0 || count > MAX_ENTRIES {
        return;
    }
    (walk.dotnet.entries, walk.dotnet.first, walk.dotnet.last) = (entries, 0, count);
    walk.dotnet.enter(phase::ENTRIES);
}

/// Takes some probes of a binary search for the unwind entry that covers `pc`.
#[inline(always)]
fn search<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) {
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

/// Reads some unwind codes: they are those of the prologue's instructions, the last one first. Returns the rule behind the last one.
#[inline(always)]
fn codes<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Option<Rule> {
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
    let flags = walk.dotnet.flags;
    let start = if walk.dotnet.start == 0 { 0 } else { PROOF_METHOD };
    let position = if start == 0 { walk.dotnet.distance } else { pc.wrapping_sub(walk.dotnet.start) as u32 };
    let Some(proof) = identity::code(machine, pc, walk.dotnet.check as u64) else {
        walk.dotnet.enter(phase::STUB);
        return None;
    };
    let distance = walk.dotnet.bytes.wrapping_add(8).wrapping_sub(walk.dotnet.fp_distance);
    let is_moved = flags & (SETS_FP | IS_BEHIND_PROLOGUE) == SETS_FP | IS_BEHIND_PROLOGUE;
    let bytes = if is_moved { distance } else { walk.dotnet.bytes };
    let rule = Rule {
        cfa: flags as u8 | start,
        register: proof as u8,
        ra: (proof >> 8) as u8,
        fp: (proof >> 16) as u8,
        offset: bytes as i32,
        aux: walk.dotnet.check as i32,
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
    /// Kinds of operands: a number of words, low and high half of a number of bytes, the same of the distance of the frame pointer in
    /// units of 16 bytes, others.
    const WORDS: u32 = 1;
    const LOW: u32 = 2;
    const HIGH: u32 = 3;
    const FP_LOW: u32 = 4;
    const FP_HIGH: u32 = 5;
    const OTHER: u32 = 0;
    let state = &mut walk.dotnet;
    if state.operands != 0 {
        state.operands -= 1;
        match state.operand {
            WORDS => state.bytes += code * 8,
            LOW => state.bytes += code,
            HIGH => state.bytes += code << 16,
            FP_LOW => state.fp_distance = code * 16,
            FP_HIGH => state.fp_distance += code << 20,
            _ => {}
        }
        let is_low = state.operand == LOW || state.operand == FP_LOW;
        state.operand = if is_low { state.operand + 1 } else { OTHER };
        return;
    }
    let (kind, detail) = (code >> 8 & 15, code >> 12 & 15);
    let is_executed = code & 0xff <= state.distance as u64;
    let operands = (OPERANDS >> (4 * kind) & 15) as u32;
    state.operands = if kind == ALLOCATE && detail != 0 { 2 } else { operands };
    state.operand = OTHER;
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
        ALLOCATE if detail != 0 => state.operand = LOW,
        ALLOCATE => state.operand = WORDS,
        SET_FP => state.flags |= SETS_FP,
        SET_FP_LARGE => {
            state.flags |= SETS_FP;
            state.operand = FP_LOW;
        }
        _ => {}
    }
}

/// The frame pointer is not the first word that the prologue saves.
const IS_MISPLACED: u64 = 8;

/// The frame pointer is set from the stack pointer.
const SETS_FP: u64 = 32;

/// `pc` is at most [`NEAR`] bytes behind the prologue: the frame pointer may be set by the next instruction.
const IS_NEAR_PROLOGUE: u64 = 64;

/// `pc` is in a handler of exceptions, behind the code of its method; in .NET 10 it doesn't save the frame pointer.
const IS_HANDLER: u64 = 128;

/// Maximum number of bytes from the last instruction that has an unwind code to the one that sets the frame pointer.
const NEAR: u64 = 16;

/// The rule is that of a method that is compiled while the program runs.
const PROOF_METHOD: u8 = 16;

/// Number of no table; the cache of rules holds rules under it, for each process.
const CACHED: u32 = 1 << 31;

/// Returns the rule that was cached for an address, if the code and its method are the same.
#[inline(always)]
fn cached<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Option<Rule> {
    let rule = machine.cached_rule(walk.process.mappings | CACHED, pc)?;
    let proof = rule.register as u32 | (rule.ra as u32) << 8 | (rule.fp as u32) << 16;
    if identity::code(machine, pc, rule.aux as u32 as u64)? != proof {
        return None;
    }
    if rule.cfa & PROOF_METHOD == 0 {
        return Some(rule);
    }
    let start = pc.wrapping_sub(rule.fp_offset as u32 as u64);
    let check = match walk.checked.get(start) {
        Some(check) => check as u32,
        None => {
            let method = identity::method(machine, start)?;
            walk.checked.keep(start, method.check as u64);
            method.check
        }
    };
    (check == rule.aux as u32).then_some(rule)
}

/// Emits the frame and unwinds to its caller.
#[inline(always)]
fn unwind<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64, rule: &Rule) -> Result<bool, Stop> {
    walk.dotnet.phase = phase::START;
    let is_method = rule.cfa & PROOF_METHOD != 0;
    let position = rule.fp_offset as u32;
    let start = pc.wrapping_sub(position as u64);
    let shape = if is_method { shape::METHOD } else { shape::PRECOMPILED };
    walk.emit_runtime_frame(machine, shape, start, rule.aux as u32, position);
    let caller = caller::<A, M>(walk, machine, pc, rule)?;
    let Some(caller) = caller else { return Ok(false) };
    walk.enter_caller::<A>(&caller)?;
    Ok(true)
}

/// Returns the registers of the caller; `None` if they are unknown.
#[inline(always)]
fn caller<A: Arch, M: Machine>(
    walk: &Walk,
    machine: &mut M,
    pc: u64,
    rule: &Rule,
) -> Result<Option<Caller>, Stop> {
    let flags = rule.cfa as u64;
    let sp = walk.registers.values[A::SP];
    let (fp, is_fp_known) = known(walk.register(A::FP as u8));
    let is_behind = flags & IS_BEHIND_PROLOGUE != 0;
    let is_exact = walk.flags & frame::EXACT != 0;
    let saves_fp = flags & SAVES_FP != 0;
    let popped = if is_exact && is_behind { A::bytes_to_return(machine, pc, saves_fp) } else { None };
    let offset = rule.offset as i64 as u64;
    // The canonical frame address; below it are the return address and the saved frame pointer.
    let mut cfa = sp.wrapping_add(8).wrapping_add(popped.unwrap_or(offset));
    let mut is_saved = if is_behind { saves_fp } else { flags & HAS_SAVED_FP != 0 };
    if let Some(popped) = popped {
        is_saved &= popped != 0;
    } else if is_behind && flags & SETS_FP != 0 {
        if !is_fp_known || !is_frame(fp, sp) {
            return Ok(None);
        }
        cfa = fp.wrapping_add(offset);
    } else if is_behind && is_fp_known && !(is_exact && flags & IS_NEAR_PROLOGUE != 0) {
        let own = cfa.wrapping_sub(16);
        let is_handler = saves_fp && fp != own || flags & IS_HANDLER != 0;
        if is_handler && is_frame(fp, own) {
            cfa = fp.wrapping_add(16);
            is_saved = true;
        }
    }
    let mut caller = Caller { pc: 0, sp: cfa, fp, is_fp_known, kept: None, flags: 0 };
    // In the order in which the next step reads.
    if is_saved {
        caller.fp = machine.read_stack(cfa.wrapping_sub(16)).ok_or(Stop::Unreadable)?;
        caller.is_fp_known = flags & IS_MISPLACED == 0;
    }
    caller.pc = machine.read_stack(cfa.wrapping_sub(8)).ok_or(Stop::Unreadable)?;
    Ok(Some(caller))
}

/// Emits code that the runtime generates, and unwinds to its caller if the return address is at the stack pointer. Other memory of the
/// process is left to guesses.
#[inline(always)]
fn stub<A: Arch, M: Machine>(
    walk: &mut Walk,
    machine: &mut M,
    pc: u64,
    is_known: bool,
) -> Result<bool, Stop> {
    walk.dotnet.phase = phase::START;
    if is_known {
        walk.emit_runtime_frame(machine, shape::STUB, pc & !4095, 0, 0);
    } else {
        walk.emit_native(machine, pc);
    }
    if walk.flags & frame::EXACT == 0 {
        return Ok(false);
    }
    let sp = walk.registers.values[A::SP];
    let pc = machine.read_stack(sp).ok_or(Stop::Unreadable)?;
    if A::call_before(machine, pc) == CallInstruction::None {
        return Ok(false);
    }
    let (fp, is_fp_known) = known(walk.register(A::FP as u8));
    let flags = frame::GUESSED;
    walk.enter_caller::<A>(&Caller { pc, sp: sp.wrapping_add(8), fp, is_fp_known, kept: None, flags })?;
    walk.guessed += 1;
    Ok(true)
}

#[cfg(test)]
mod tests;
