//! Frames of code without unwind data: guess, and believe a guess only where it can be checked.
//!
//! | guess                              | believed when                                                         |
//! |------------------------------------|-----------------------------------------------------------------------|
//! | the code gives back a few bytes and returns | always: they are what is in front of the return address      |
//! | the frame pointer leads to a frame | it is aligned, above the stack pointer and not absurdly far from it   |
//! | a word near the top of the stack   | the call before it leads to shortly before here, or nowhere definite and the frame is tiny, or it stands in the outermost function |
//!
//! Either way the return address lies in executable memory behind a call instruction. There is one exception: an
//! interpreter that was made at run time, as Java's, returns to where nothing was called. Where both sides of such a
//! link are in memory without any unwind data, the link behind it has to hold, too. The frame is marked as guessed all
//! the same.

use super::arch::{Arch, Call, Prologue};
use super::{Walk, find_mapping, native};
use crate::abi::mapping::kind;
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::machine::Machine;

/// The largest frame that is believed of a frame pointer.
const MAX_FRAME: u64 = 1 << 24;

/// How many words of the stack are searched for a return address.
const SEARCHED: u64 = 24;

/// Of those, in how many an indirect call is believed: in a larger frame it may be one that came back long ago.
const TINY: u64 = 3;

/// How far behind its entry a function is believed to reach.
const MAX_FUNCTION: u64 = 1 << 17;

/// A caller's frame.
struct Caller {
    return_address: u64,
    sp: u64,
    fp: Option<u64>,
}

/// Goes from the frame at `pc` to its caller's, or begins to search for it.
#[inline(always)]
pub(super) fn caller<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<(), Stop> {
    if let Some(caller) = by_pointer::<A, M>(walk, machine, pc) {
        let target = A::strip(caller.return_address);
        if target == 0 {
            return Err(Stop::Root);
        }
        if call_before::<A, M>(walk, machine, target) != Call::None
            || is_chained::<A, M>(walk, machine, &caller, target)
        {
            return take::<A>(walk, caller.return_address, caller.sp, caller.fp);
        }
    }
    walk.searched = 1;
    Ok(())
}

/// Whether code without unwind data returns to `target`, which is such code as well, and the frame there is linked to
/// another one.
#[inline(always)]
fn is_chained<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, caller: &Caller, target: u64) -> bool {
    let Some(fp) = caller.fp.filter(|&fp| walk.mapping.kind == kind::BARE && is_frame(fp, caller.sp)) else {
        return false;
    };
    let is_bare = |machine: &M, address: u64| {
        find_mapping(machine, &walk.process, address).is_some_and(|mapping| mapping.kind == kind::BARE)
    };
    if !is_bare(machine, target) {
        return false;
    }
    // In the order in which the next step asks.
    let (_, Some(behind)) = (machine.stack(fp), machine.stack(fp.wrapping_add(8))) else {
        return false;
    };
    let behind = A::strip(behind);
    is_bare(machine, behind) || call_before::<A, M>(walk, machine, behind) != Call::None
}

/// Looks at the next word of the stack for the return address of the frame at `pc`.
///
/// One word a step: the verifier follows every way through a loop, and here each of them has a search inside.
#[inline(always)]
pub(super) fn search<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<(), Stop> {
    let index = walk.searched as u64 - 1;
    if index >= SEARCHED {
        return Err(why_not::<A>(walk));
    }
    walk.searched += 1;
    let at = walk.registers.values[A::SP].wrapping_add(index * 8);
    let return_address = machine.stack(at).ok_or(why_not::<A>(walk))?;
    let (target, sp) = (A::strip(return_address), at.wrapping_add(8));
    let believed = match call_before::<A, M>(walk, machine, target) {
        Call::None => return linked::<A, M>(walk, machine, at, return_address),
        Call::Indirect => index < TINY,
        Call::Direct(entry) => pc.wrapping_sub(entry) < MAX_FUNCTION,
    };
    if !believed && !native::is_outermost(walk, machine, target.wrapping_sub(1)) {
        return Ok(());
    }
    // Such a function leaves the frame pointer alone.
    match walk.register(A::FP as u8) {
        Some(fp) => take::<A>(walk, return_address, sp, Some(fp)),
        None => take::<A>(walk, return_address, sp, None),
    }
}

/// Goes by the words at `at` and below if they are a link such as Java's compiled code leaves at the end of its frame.
#[inline(always)]
fn linked<A: Arch, M: Machine>(
    walk: &mut Walk,
    machine: &mut M,
    at: u64,
    return_address: u64,
) -> Result<(), Stop> {
    let below = at.wrapping_sub(8);
    if walk.mapping.kind != kind::BARE || below < walk.registers.values[A::SP] {
        return Ok(());
    }
    let Some(fp) = machine.stack(below) else { return Ok(()) };
    let caller = Caller { return_address, sp: at.wrapping_add(8), fp: Some(fp) };
    if !is_chained::<A, M>(walk, machine, &caller, A::strip(return_address)) {
        return Ok(());
    }
    take::<A>(walk, return_address, caller.sp, Some(fp))
}

/// Goes to a caller that is believed.
#[inline(always)]
fn take<A: Arch>(walk: &mut Walk, return_address: u64, sp: u64, fp: Option<u64>) -> Result<(), Stop> {
    walk.searched = 0;
    walk.go::<A>(return_address, sp, fp)?;
    walk.flags = frame::GUESSED;
    walk.guessed += 1;
    Ok(())
}

#[inline(always)]
fn why_not<A: Arch>(walk: &Walk) -> Stop {
    let exact = walk.flags & frame::EXACT != 0;
    match walk.register(A::FP as u8) {
        // By convention the outermost frame of a thread has no frame pointer.
        Some(0) if !exact => Stop::Root,
        _ => Stop::Implausible,
    }
}

/// The call before `address`, if that is in executable memory.
#[inline(always)]
fn call_before<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, address: u64) -> Call {
    if !walk.is_code(machine, address.wrapping_sub(1)) {
        return Call::None;
    }
    A::call_before(machine, address)
}

/// The caller as the frame pointer says, or the stack pointer where the frame doesn't stand yet or is about to go.
#[inline(always)]
fn by_pointer<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, pc: u64) -> Option<Caller> {
    let sp = walk.registers.values[A::SP];
    let fp = walk.register(A::FP as u8);
    // The first instructions of a function run before its frame stands, and the last one after it is gone.
    if walk.flags & frame::EXACT != 0
        && let Prologue::Pushed(bytes) = A::prologue(machine, pc)
    {
        let fp = if bytes == 0 { fp } else { machine.stack(sp) };
        return at::<M>(machine, sp.wrapping_add(bytes), fp);
    }
    if walk.flags & frame::EXACT == 0
        && let Some(bytes) = A::epilogue(machine, pc.wrapping_add(1))
    {
        return at::<M>(machine, sp.wrapping_add(bytes), fp);
    }
    let fp = fp.filter(|&fp| is_frame(fp, sp))?;
    let caller = machine.stack(fp)?;
    at::<M>(machine, fp.wrapping_add(8), Some(caller))
}

/// The caller whose return address lies at `place`.
#[inline(always)]
fn at<M: Machine>(machine: &mut M, place: u64, fp: Option<u64>) -> Option<Caller> {
    Some(Caller { return_address: machine.stack(place)?, sp: place.wrapping_add(8), fp })
}

/// Whether a frame may be where the frame pointer says.
#[inline(always)]
fn is_frame(fp: u64, sp: u64) -> bool {
    fp != 0 && fp & 7 == 0 && fp >= sp && fp.wrapping_sub(sp) <= MAX_FRAME
}
