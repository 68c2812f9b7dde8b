//! Frames of code blobs: compiled methods, wrappers of native methods, stubs of the runtime.
//!
//! ```text
//!   segment of pc ──► segment map: 0 at the start of a block, else the distance to go back
//!                 ──► block: header | blob: _frame_size, start of the code, …, deoptimization handlers, _orig_pc_offset, …
//! ```
//!
//! A frame that is to be deoptimized returns to a handler at the end of its code; the address that it stands for is in the
//! frame.

use super::x86_64::{self, Extent};
use super::{enter, field16, leave_stub};
use crate::abi::hotspot::{HEAPS, NONE, flag, parameter, shape};
use crate::abi::interpreter::FRAME_BYTES;
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::abi::table::Rule;
use crate::machine::Machine;
use crate::walk::arch::{Arch, CallInstruction};
use crate::walk::{Walk, native};

/// Segment of a block that is free.
const FREE: u64 = 0xff;

/// Maximum number of steps of a search: of two distances each, which are up to 254 segments.
const MAX_STEPS: u64 = 256;

/// Maximum size of a frame, in words.
const MAX_FRAME: u64 = (1 << 17) - 1;

/// Words of a part of a blob.
const WORDS: usize = FRAME_BYTES / 8;

/// A code blob.
struct Blob {
    /// Size of a frame, in words; 0 for code whose frames differ.
    frame_size: u64,
    /// `true` if the program counter precedes the end of the prologue.
    is_prologue: bool,
    /// `true` if the prologue has linked the frame by the frame pointer.
    is_linked: bool,
    /// Offset of the original return address in a frame that is to be deoptimized.
    orig_pc: u64,
    /// `true` if the return address is a deoptimization handler.
    is_deoptimized: bool,
    check: u32,
}

/// Emits the frame at `pc` in a code heap and unwinds to its caller.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    let is_exact = walk.flags & frame::EXACT != 0;
    let cached = if is_exact { None } else { cached(walk, machine, pc) };
    let (address, blob) = match cached {
        Some(found) => found,
        None => {
            let address = match find(walk, machine, pc) {
                Some(0) => return Ok(true),
                Some(address) => address,
                None => {
                    walk.hotspot.segment = 0;
                    walk.emit_native(machine, pc);
                    return Ok(false);
                }
            };
            let return_address = if is_exact { 0 } else { pc.wrapping_add(1) };
            let Some(blob) = read(walk, machine, address, pc, return_address) else {
                walk.emit_native(machine, pc);
                return Ok(false);
            };
            if !is_exact {
                cache(walk, machine, pc, address, &blob);
            }
            (address, blob)
        }
    };
    let sp = walk.registers.values[A::SP];
    let is_call_stub = !is_exact && pc.wrapping_add(1) == walk.parameter(parameter::CALL_STUB);
    if blob.frame_size == 0 || is_call_stub {
        super::emit_stub(walk, machine, pc);
        return leave_stub::<A, M>(walk, machine, pc);
    }
    let mut position = pc.wrapping_sub(address);
    if blob.is_deoptimized {
        let original = machine.read_stack(sp.wrapping_add(blob.orig_pc)).ok_or(Stop::Unreadable)?;
        position = original.wrapping_sub(1).wrapping_sub(address);
    }
    if is_exact && let Some(return_address) = caller_by_static_call::<A, M>(machine, sp, pc) {
        let (fp, is_fp_known) = native::known(walk.register(A::FP as u8));
        return enter::<A>(walk, return_address, sp.wrapping_add(8), fp, is_fp_known);
    }
    if walk.hotspot.pushed == 0 {
        walk.emit_runtime_frame(machine, shape::COMPILED, address, blob.check, position as u32);
    }
    let linked = walk.registers.values[A::FP].wrapping_sub(sp);
    let sizes = [blob.frame_size, linked];
    let extent = if is_exact { extent(walk, machine, sp, pc, &blob, sizes)? } else { Extent::Whole };
    let (offset, is_saved) = place(extent, sizes);
    let at = above_pushed(walk, machine, sp.wrapping_add(offset))?;
    if at == 0 {
        return Ok(true);
    }
    let (fp, is_fp_known) = if is_saved {
        let place = at.wrapping_sub(8);
        native::known(machine.read_stack(place).map(|fp| walk.hotspot.frozen.address(place, fp)))
    } else {
        native::known(walk.register(A::FP as u8))
    };
    let return_address = machine.read_stack(at).ok_or(Stop::Unreadable)?;
    enter::<A>(walk, return_address, at.wrapping_add(8), fp, is_fp_known)
}

/// Returns the return address of the call that reached the static call stub at `pc`, if there is one: the stub is no frame.
#[inline(always)]
fn caller_by_static_call<A: Arch, M: Machine>(machine: &mut M, sp: u64, pc: u64) -> Option<u64> {
    let stub = x86_64::static_call_stub(machine, pc)?;
    let return_address = machine.read_stack(sp)?;
    match A::call_before(machine, return_address) {
        CallInstruction::Direct(entry) if entry == stub => Some(return_address),
        _ => None,
    }
}

/// Returns the extent of the innermost frame, by the code at `pc` and by where a return address is.
#[inline(always)]
fn extent<M: Machine>(
    walk: &Walk,
    machine: &mut M,
    sp: u64,
    pc: u64,
    blob: &Blob,
    sizes: [u64; 2],
) -> Result<Extent, Stop> {
    let extent = if blob.is_linked {
        Extent::Linked
    } else {
        x86_64::extent(machine, pc, blob.is_prologue).unwrap_or(Extent::Whole)
    };
    checked(walk, machine, sp, sizes, extent)
}

/// Returns the offset of the return address from the stack pointer, and `true` if the frame pointer is saved below it. Sizes are that
/// of the frame in words, and the distance from the stack pointer to the frame pointer.
#[inline(always)]
fn place(extent: Extent, sizes: [u64; 2]) -> (u64, bool) {
    let [frame_size, linked] = sizes;
    match extent {
        Extent::Whole => (frame_size.wrapping_sub(1) * 8, true),
        Extent::Allocated => (frame_size.wrapping_sub(1) * 8, false),
        Extent::Pushed => (8, true),
        Extent::Linked => (linked.wrapping_add(8), true),
        Extent::None => (0, false),
    }
}

/// Returns the extent of the innermost frame if its return address is in a code heap, where all callers are; else the one for
/// which that is so. Code behind a method runs without a frame, and stubs have prologues of other kinds.
#[inline(always)]
fn checked<M: Machine>(
    walk: &Walk,
    machine: &mut M,
    sp: u64,
    sizes: [u64; 2],
    extent: Extent,
) -> Result<Extent, Stop> {
    let word = machine.read_stack(sp.wrapping_add(place(extent, sizes).0)).ok_or(Stop::Unreadable)?;
    if walk.is_java(word) {
        return Ok(extent);
    }
    let whole = sp.wrapping_add(place(Extent::Whole, sizes).0);
    let words = [sp, sp.wrapping_add(8), whole].map(|at| machine.read_stack(at));
    Ok(match words {
        [Some(word), ..] if walk.is_java(word) => Extent::None,
        [_, Some(word), _] if walk.is_java(word) => Extent::Pushed,
        // The barrier at the entry of a method is a part of its prologue, with the whole frame.
        [.., Some(word)] if walk.is_java(word) => Extent::Whole,
        _ => extent,
    })
}

/// Returns the place of a return address that is at `end`, or above words that the code has pushed: callers of compiled code are in
/// code heaps. 0 if the search goes on in the next step.
#[inline(always)]
fn above_pushed<M: Machine>(walk: &mut Walk, machine: &mut M, end: u64) -> Result<u64, Stop> {
    let at = end.wrapping_add(walk.hotspot.pushed * 8);
    let word = machine.read_stack(at).ok_or(Stop::Unreadable)?;
    if walk.is_java(word) || walk.hotspot.frozen.is_active() {
        walk.hotspot.pushed = 0;
        return Ok(at);
    }
    Ok(if walk.hotspot.search_on() { 0 } else { end })
}

/// Number of no table; the cache of rules holds blobs under it, for each process.
const CACHED: u32 = 1 << 31;

/// Returns the blob that was cached for a return address, if it is still there: its check is unique to a compilation.
#[inline(always)]
fn cached<M: Machine>(walk: &Walk, machine: &mut M, pc: u64) -> Option<(u64, Blob)> {
    let rule = machine.cached_rule(walk.process.mappings | CACHED, pc)?;
    let address = pc.wrapping_sub(rule.offset as u32 as u64);
    let (parts, fields) = (walk.parameter(parameter::PARTS), walk.parameter(parameter::DEOPTIMIZATION));
    let at = address.wrapping_add(field16(parts, 2)).wrapping_add(field16(fields, 3));
    let check = rule.fp_offset as u32;
    if machine.read_memory(at)? as u32 != check {
        return None;
    }
    let (frame_size, orig_pc) = (rule.aux as u32 as u64 & MAX_FRAME, rule.aux as u32 as u64 >> 17 << 3);
    let blob = Blob {
        frame_size,
        is_prologue: false,
        is_linked: false,
        orig_pc,
        is_deoptimized: rule.cfa != 0,
        check,
    };
    Some((address, blob))
}

/// Caches the blob of a return address.
#[inline(always)]
fn cache<M: Machine>(walk: &Walk, machine: &mut M, pc: u64, address: u64, blob: &Blob) {
    let rule = Rule {
        cfa: blob.is_deoptimized as u8,
        register: 0,
        ra: 0,
        fp: 0,
        offset: pc.wrapping_sub(address) as i32,
        // 17 bits of words, and 15 of words.
        aux: (blob.frame_size | blob.orig_pc >> 3 << 17) as i32,
        fp_offset: blob.check as i32,
    };
    machine.cache_rule(walk.process.mappings | CACHED, pc, &rule);
}

/// Returns the address of the blob at `pc`; 0 if the search goes on in the next step, `None` if there is no blob.
#[inline(always)]
fn find<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Option<u64> {
    let (mut low, mut map) = (0, 0);
    let mut index = 0;
    while index < HEAPS {
        let start = walk.parameter(parameter::HEAP + 3 * index);
        let size = walk.parameter(parameter::HEAP + 3 * index + 1).wrapping_sub(start);
        if pc.wrapping_sub(start) < size {
            low = start;
            map = walk.parameter(parameter::HEAP + 3 * index + 2);
        }
        index += 1;
    }
    if map == 0 {
        return None;
    }
    let sizes = walk.parameter(parameter::SIZES);
    let (header, shift) = (sizes & 0xff, sizes >> 8 & 31);
    let mut segment = match walk.hotspot.segment {
        0 => {
            walk.hotspot.steps = 0;
            pc.wrapping_sub(low) >> shift
        }
        further => further - 1,
    };
    let mut distance = tag(machine, map, segment)?;
    if distance != 0 {
        segment = segment.checked_sub(distance)?;
        distance = tag(machine, map, segment)?;
    }
    if distance != 0 {
        walk.hotspot.segment = segment.checked_sub(distance)? + 1;
        walk.hotspot.steps += 1;
        return (walk.hotspot.steps < MAX_STEPS).then_some(0);
    }
    walk.hotspot.segment = 0;
    Some(low.wrapping_add(segment << shift).wrapping_add(header))
}

/// Returns the distance back from a segment, `None` if it is free.
#[inline(always)]
fn tag<M: Machine>(machine: &mut M, map: u64, segment: u64) -> Option<u64> {
    let at = map.wrapping_add(segment);
    // Aligned, because the map may end with its page.
    let distance = machine.read_memory(at & !7)? >> ((at & 7) * 8) & 0xff;
    (distance != FREE).then_some(distance)
}

/// Reads the blob at an address.
#[inline(always)]
fn read<M: Machine>(
    walk: &Walk,
    machine: &mut M,
    address: u64,
    pc: u64,
    return_address: u64,
) -> Option<Blob> {
    let flags = walk.parameter(parameter::SIZES) >> 16;
    let parts = walk.parameter(parameter::PARTS);
    let frame = walk.parameter(parameter::FRAME);
    let deoptimization = walk.parameter(parameter::DEOPTIMIZATION);
    let is_relative = flags & flag::RELATIVE != 0;
    let is_in_second = flags & flag::HANDLERS_IN_SECOND != 0;
    let object = machine.read_object(address.wrapping_add(field16(parts, 0)), size(field16(parts, 1)))?;
    let frame_size = part(object, field16(frame, 0)) & 0xffff_ffff;
    let code = part(object, field16(frame, 1));
    let complete = part(object, field16(frame, 2));
    let mut handler = part(object, field16(deoptimization, 0));
    let mut handler_mh = part(object, field16(deoptimization, 1));
    let object = machine.read_object(address.wrapping_add(field16(parts, 2)), size(field16(parts, 3)))?;
    if is_in_second {
        handler = part(object, field16(deoptimization, 0));
        handler_mh = part(object, field16(deoptimization, 1));
    }
    let orig_pc = part(object, field16(deoptimization, 2)) & 0xffff_ffff;
    let check = part(object, field16(deoptimization, 3)) as u32;
    let (code, handler, handler_mh, complete) = if is_relative {
        let absolute = |distance: u64| address.wrapping_add(distance & 0xffff_ffff);
        (absolute(code), absolute(handler), absolute(handler_mh), complete as i16 as i64)
    } else {
        (code, handler, handler_mh, complete as i32 as i64)
    };
    let has = |index: u32| field16(deoptimization, index) != NONE as u64;
    let is_handler = return_address == handler && has(0) || return_address == handler_mh && has(1);
    let is_prologue = (pc.wrapping_sub(code) as i64) < complete;
    // Some stubs have a negative size.
    let frame_size = if frame_size > MAX_FRAME { 0 } else { frame_size };
    Some(Blob {
        frame_size,
        is_prologue,
        is_linked: is_prologue && return_address == 0 && x86_64::is_linked(machine, code, pc),
        orig_pc: orig_pc & 0x3_fff8,
        is_deoptimized: is_handler && return_address != 0,
        check,
    })
}

/// Returns the number of bytes to read of a part.
#[inline(always)]
fn size(bytes: u64) -> u32 {
    (bytes & (2 * FRAME_BYTES as u64 - 1)) as u32
}

/// Returns the eight bytes at an offset, or, if it is not a multiple of eight, those up to the next one.
#[inline(always)]
pub(super) fn part(object: &[u64; WORDS], offset: u64) -> u64 {
    object[(offset / 8) as usize & (WORDS - 1)] >> (offset % 8 * 8)
}
