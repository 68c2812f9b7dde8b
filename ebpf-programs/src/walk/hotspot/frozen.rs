//! Frames of a virtual thread that are in the heap: of its callers only some are copied to the carrier's stack when it is
//! mounted, the others when they are returned to.
//!
//! ```text
//!   carrier's stack                          heap
//!     frame, frame                             Continuation ──► tail: StackChunk ──► parent: StackChunk ──► …
//!     return address = the return barrier                       sp, pc of its innermost frame
//!     ContinuationEntry ─────────────────────► (its cont)       frame, frame, … to the bottom
//!     frame of enterSpecial, Continuation.run, …
//! ```
//!
//! A chunk holds frames as a stack does, with distances in place of addresses: the saved frame pointer of a frame that the
//! interpreter called is a number of words from where it is saved, and the caller's stack pointer of an interpreted frame one
//! from its frame pointer. The outermost frame of a chunk returns to the barrier, into `enterSpecial`,
//! or to 0.
//!
//! Without the chunks, a frame without an address marks the callers.

use super::compiled::part;
use super::field16;
use crate::abi::hotspot::{oops, parameter, shape};
use crate::abi::interpreter::FRAME_BYTES;
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::machine::Machine;
use crate::walk::arch::Arch;
use crate::walk::{Caller, Walk};

/// Maximum number of chunks of a virtual thread.
const MAX_CHUNKS: u64 = 32;

/// Offset of the continuation in a `ContinuationEntry`.
const CONTINUATION: u64 = 16;

/// Bits of the size of a frame of `enterSpecial`, in words; JDK 21 and 25 have 10.
const MAX_ENTRY: u64 = 63;

/// Maximum number of bytes of arguments on the stack, and of what aligns them.
const MAX_ARGUMENTS: u64 = 256 * 8;

/// Position in the chunks of a virtual thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrozenState {
    /// Number of chunks reached, plus 1; 0 if the frames are on the stack.
    chunks: u64,
    /// The next chunk, 0 for none.
    next: u64,
    /// The continuation.
    continuation: u64,
    /// Return address of the outermost frame, into the frame that entered the virtual thread.
    return_address: u64,
    /// Stack pointer and frame pointer of that frame.
    carrier: [u64; 2],
}

impl FrozenState {
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.chunks = 0;
    }

    /// Returns `true` if the current frame is in the heap.
    #[inline(always)]
    pub(super) fn is_active(&self) -> bool {
        self.chunks != 0
    }

    /// Returns the return address of a frame: that of the outermost one of a chunk may be 0.
    #[inline(always)]
    pub(super) fn return_address(&self, found: u64) -> u64 {
        if self.is_active() && found == 0 { self.return_address } else { found }
    }

    /// Returns the address that `value`, which is stored at `at`, stands for.
    #[inline(always)]
    pub(super) fn address(&self, at: u64, value: u64) -> u64 {
        if self.is_active() { at.wrapping_add(value << 3) } else { value }
    }
}

/// Returns `true` if the frame at `pc` is none, but stands for callers in the heap, or for the end of those.
#[inline(always)]
pub(super) fn is_border(walk: &Walk, pc: u64) -> bool {
    let return_address = pc.wrapping_add(1);
    let frozen = &walk.hotspot.frozen;
    let is_barrier = return_address == walk.parameter(parameter::RETURN_BARRIER);
    let is_end = frozen.is_active() && return_address == frozen.return_address;
    walk.flags & frame::EXACT == 0 && (is_barrier || is_end)
}

/// Takes a step towards the next frame: finds the chunks, enters one, or returns to the carrier's stack.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Result<bool, Stop> {
    let is_found = if !walk.hotspot.frozen.is_active() {
        find::<A, M>(walk, machine)?.is_some()
    } else if walk.hotspot.frozen.next != 0 {
        open::<A, M>(walk, machine).is_some()
    } else {
        leave::<A>(walk);
        true
    };
    if !is_found {
        walk.emit_runtime_frame(machine, shape::INTERPRETED, 0, 0, 0);
        leave::<A>(walk);
    }
    Ok(true)
}

/// Finds the first chunk by the `ContinuationEntry`; `None` if there is none.
///
/// ```text
///   frame of enterSpecial    fp + 8   return address
///                            fp       saved frame pointer        saved by its callee, unless it is called from the heap
///                            …
///                            sp       ContinuationEntry
///   callee                            arguments, if it has more than fit into registers
/// ```
#[inline(always)]
fn find<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Result<Option<()>, Stop> {
    let mut variable = |index: usize| machine.read_memory(walk.parameter(index)).ok_or(Stop::Unreadable);
    let (return_address, blob) = (variable(parameter::CONTINUATION)?, variable(parameter::ENTER_SPECIAL)?);
    let parts = walk.parameter(parameter::PARTS);
    let at = blob.wrapping_add(field16(parts, 0)).wrapping_add(field16(walk.parameter(parameter::FRAME), 0));
    let size = machine.read_memory(at).ok_or(Stop::Unreadable)? & MAX_ENTRY;
    let sp = walk.registers.values[A::SP];
    let by_fp = walk.registers.values[A::FP].wrapping_add(16).wrapping_sub(size << 3);
    // A callee whose caller is compiled code in the heap saved what that had in the register.
    let entry = if by_fp.wrapping_sub(sp) <= MAX_ARGUMENTS { by_fp } else { sp };
    let fp = entry.wrapping_add(size << 3).wrapping_sub(16);
    let frozen = &mut walk.hotspot.frozen;
    frozen.chunks = 1;
    frozen.return_address = return_address;
    frozen.carrier = [entry, fp];
    let Some(continuation) = machine.read_stack(entry.wrapping_add(CONTINUATION)) else { return Ok(None) };
    frozen.continuation = continuation;
    let fields = walk.parameter(parameter::CHUNK);
    if fields == 0 {
        return Ok(None);
    }
    let tail = machine.read_memory(continuation.wrapping_add(field16(fields, 0)));
    walk.hotspot.frozen.next = tail.map_or(0, |tail| address(walk, tail));
    Ok(tail.map(|_| ()))
}

/// Enters the innermost frame of the next chunk, unless that is empty; `None` if it is no chunk of the continuation.
#[inline(always)]
fn open<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Option<()> {
    let chunk = walk.hotspot.frozen.next;
    let (first, second) = (walk.parameter(parameter::CHUNK), walk.parameter(parameter::CHUNK_FIELDS));
    let stack = field16(first, 1);
    let object = machine.read_object(chunk, stack as u32 & (2 * FRAME_BYTES as u32 - 1))?;
    let sp = part(object, field16(first, 2)) & 0xffff_ffff;
    let bottom = part(object, field16(first, 3)) & 0xffff_ffff;
    let pc = part(object, field16(second, 0));
    let parent = address(walk, part(object, field16(second, 1)));
    let owner = address(walk, part(object, field16(second, 2)));
    // Under Z, a reference that no code reads keeps the former address of an object that the collector has moved meanwhile.
    let may_be_former = matches!(field16(second, 3) & 0xff, oops::COLORED | oops::MAPPED);
    let frozen = &mut walk.hotspot.frozen;
    frozen.chunks += 1;
    let is_other = owner != frozen.continuation && !may_be_former;
    if is_other || frozen.chunks > MAX_CHUNKS {
        return None;
    }
    frozen.next = parent;
    if sp >= bottom {
        return Some(());
    }
    let sp = chunk.wrapping_add(stack).wrapping_add(sp << 3);
    let at = sp.wrapping_sub(16);
    let fp = machine.read_stack(at)?;
    let fp = walk.hotspot.frozen.address(at, fp);
    if !walk.is_java(pc) {
        return None;
    }
    walk.set_caller::<A>(&Caller { pc, sp, fp, is_fp_known: true, kept: None, flags: 0 });
    Some(())
}

/// Makes the frame that entered the virtual thread the current one.
#[inline(always)]
fn leave<A: Arch>(walk: &mut Walk) {
    let frozen = &mut walk.hotspot.frozen;
    let [sp, fp] = frozen.carrier;
    frozen.chunks = 0;
    let caller = Caller { pc: frozen.return_address, sp, fp, is_fp_known: fp != 0, kept: None, flags: 0 };
    walk.set_caller::<A>(&caller);
}

/// Returns the address that a field of an object holds.
#[inline(always)]
fn address(walk: &Walk, value: u64) -> u64 {
    let mode = field16(walk.parameter(parameter::CHUNK_FIELDS), 3);
    let base = walk.parameter(parameter::OOPS_BASE);
    match mode & 0xff {
        oops::NARROW => match value & 0xffff_ffff {
            0 => 0,
            narrow => base.wrapping_add(narrow << (mode >> 8 & 31)),
        },
        // The lowest of four bits precedes the address.
        oops::COLORED => {
            let more =
                (value & 0x1000 == 0) as u64 + (value & 0x3000 == 0) as u64 + (value & 0x7000 == 0) as u64;
            value >> (13 + more)
        }
        _ => value,
    }
}
