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

use super::arch::{Arch, CallInstruction};
use super::{Walk, native};
use crate::abi::mapping::{Mapping, kind};
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

/// What may be the caller's frame.
struct Guess {
    return_address: u64,
    sp: u64,
    fp: Option<u64>,
}

/// Makes one more guess for the caller of the frame at `pc`, the frame pointer's first, and goes there if it is believed.
///
/// One guess a step: the verifier follows every way through a loop, and here each of them has searches inside.
#[inline(always)]
pub(super) fn guess<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<(), Stop> {
    let word = walk.guesses as u64 - 1;
    walk.guesses += 1;
    let guess = match word {
        0 => by_pointer::<A, M>(walk, machine, pc),
        1..=SEARCHED => Some(by_word::<A, M>(walk, machine, word - 1)?),
        _ => return Err(stop_reason::<A>(walk)),
    };
    let Some(mut guess) = guess else { return Ok(()) };
    let target = A::strip(guess.return_address);
    if target == 0 && word == 0 {
        return Err(Stop::Root);
    }
    let Some(mapping) = walk.mapping_of(machine, target.wrapping_sub(1)) else { return Ok(()) };
    let call = A::call_before(machine, target);
    if call == CallInstruction::None && word != 0 {
        // Java's compiled code leaves a link at the end of its frame: the frame pointer lies below.
        guess.fp = below::<A, M>(walk, machine, guess.sp);
    }
    let believed = match call {
        CallInstruction::None => is_chained::<A, M>(walk, machine, &guess, &mapping),
        _ if word == 0 => true,
        CallInstruction::Indirect if word <= TINY => true,
        CallInstruction::Direct(entry) if pc.wrapping_sub(entry) < MAX_FUNCTION => true,
        _ => native::is_outermost(machine, &mapping, target.wrapping_sub(1)),
    };
    if !believed {
        return Ok(());
    }
    walk.guesses = 0;
    walk.enter_caller::<A>(guess.return_address, guess.sp, guess.fp)?;
    walk.flags = frame::GUESSED;
    walk.guessed += 1;
    Ok(())
}

/// The caller if word number `index` of the stack is the return address; such a function leaves the frame pointer alone.
#[inline(always)]
fn by_word<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, index: u64) -> Result<Guess, Stop> {
    let at = walk.registers.values[A::SP].wrapping_add(index * 8);
    let return_address = machine.read_stack(at).ok_or(stop_reason::<A>(walk))?;
    Ok(Guess { return_address, sp: at.wrapping_add(8), fp: walk.register(A::FP as u8) })
}

/// The word below the return address that lies below `sp`, if it is part of the stack.
#[inline(always)]
fn below<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, sp: u64) -> Option<u64> {
    let at = sp.wrapping_sub(16);
    if at < walk.registers.values[A::SP] { None } else { machine.read_stack(at) }
}

/// Whether code without unwind data returns to other such code, in `mapping`, and the frame there is linked to another
/// one.
#[inline(always)]
fn is_chained<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, guess: &Guess, mapping: &Mapping) -> bool {
    if walk.mapping.kind != kind::BARE || mapping.kind != kind::BARE {
        return false;
    }
    let Some(fp) = guess.fp.filter(|&fp| is_frame(fp, guess.sp)) else { return false };
    // In the order in which the next step asks.
    let (_, Some(behind)) = (machine.read_stack(fp), machine.read_stack(fp.wrapping_add(8))) else {
        return false;
    };
    let behind = A::strip(behind);
    match walk.mapping_of(machine, behind.wrapping_sub(1)) {
        None => false,
        Some(mapping) => {
            mapping.kind == kind::BARE || A::call_before(machine, behind) != CallInstruction::None
        }
    }
}

#[inline(always)]
fn stop_reason<A: Arch>(walk: &Walk) -> Stop {
    let exact = walk.flags & frame::EXACT != 0;
    match walk.register(A::FP as u8) {
        // By convention the outermost frame of a thread has no frame pointer.
        Some(0) if !exact => Stop::Root,
        _ => Stop::Implausible,
    }
}

/// The caller as the frame pointer says, or the stack pointer where the frame doesn't stand yet or is about to go.
#[inline(always)]
fn by_pointer<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, pc: u64) -> Option<Guess> {
    let sp = walk.registers.values[A::SP];
    let fp = walk.register(A::FP as u8);
    let exact = walk.flags & frame::EXACT != 0;
    // The first instructions of a function run before its frame stands, and the last one after it is gone.
    let bytes = if exact { A::prologue(machine, pc) } else { A::epilogue(machine, pc.wrapping_add(1)) };
    let (place, fp) = match bytes {
        Some(bytes) if exact && bytes != 0 => (sp.wrapping_add(bytes), machine.read_stack(sp)),
        Some(bytes) => (sp.wrapping_add(bytes), fp),
        None => {
            let fp = fp.filter(|&fp| is_frame(fp, sp))?;
            (fp.wrapping_add(8), Some(machine.read_stack(fp)?))
        }
    };
    Some(Guess { return_address: machine.read_stack(place)?, sp: place.wrapping_add(8), fp })
}

/// Whether a frame may be where the frame pointer says.
#[inline(always)]
fn is_frame(fp: u64, sp: u64) -> bool {
    fp != 0 && fp & 7 == 0 && fp >= sp && fp.wrapping_sub(sp) <= MAX_FRAME
}
