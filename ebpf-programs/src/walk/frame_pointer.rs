//! Frames of code without unwind data: guesses, accepted only if they can be checked.
//!
//! | guess                                               | accepted if                                           |
//! |-----------------------------------------------------|-------------------------------------------------------|
//! | the code pops a few bytes and returns               | always: only these bytes precede the return address   |
//! | the frame pointer leads to a frame                  | it is aligned, above the stack pointer, and at most 16 MiB from it |
//! | a stack word near the stack pointer is the return address | the call before it has a target at most 128 KiB before here, or an unknown target and the frame is tiny, or it is in the outermost function |
//!
//! In all cases the return address must be in executable memory, after a call instruction. There is one exception: an
//! interpreter that is generated at run time, as Java's is, may return to an address without a call before it. If neither
//! side of such a link has unwind data, the next link must be valid too. The frame is marked as guessed nevertheless.

use super::arch::{Arch, CallInstruction};
use super::{Caller, Walk, native};
use crate::abi::mapping::Mapping;
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::machine::Machine;

/// Maximum distance from the stack pointer to the frame pointer, in bytes.
const MAX_FRAME: u64 = 1 << 24;

/// Number of stack words that are searched for a return address.
const SEARCHED: u64 = 24;

/// Number of those in which a return address after an indirect call is accepted; further up it may be stale.
const TINY: u64 = 3;

/// Maximum size of a function, in bytes.
const MAX_FUNCTION: u64 = 1 << 17;

/// A candidate for the caller's frame.
struct Guess {
    return_address: u64,
    sp: u64,
    fp: Option<u64>,
}

/// Makes the next guess for the caller of the frame at `pc`, starting with the frame pointer, and unwinds to it if accepted.
///
/// Each step makes one guess, because the verifier follows every path through a loop, and a guess contains searches.
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
        // Java's compiled code saves the frame pointer at the end of its frame, below the return address.
        guess.fp = below::<A, M>(walk, machine, guess.sp);
    }
    let is_accepted = match call {
        CallInstruction::None => is_chained::<A, M>(walk, machine, &guess, &mapping),
        _ if word == 0 => true,
        CallInstruction::Indirect if word <= TINY => true,
        CallInstruction::Direct(entry) if pc.wrapping_sub(entry) < MAX_FUNCTION => true,
        _ => native::is_outermost(machine, &mapping, target.wrapping_sub(1)),
    };
    if !is_accepted {
        return Ok(());
    }
    walk.guesses = 0;
    let (fp, is_fp_known) = native::known(guess.fp);
    let caller = Caller { pc: target, sp: guess.sp, fp, is_fp_known, kept: None, flags: frame::GUESSED };
    walk.enter_caller::<A>(&caller)?;
    walk.guessed += 1;
    Ok(())
}

/// Returns the caller under the assumption that stack word `index` is the return address and the frame pointer is unchanged.
#[inline(always)]
fn by_word<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, index: u64) -> Result<Guess, Stop> {
    let at = walk.registers.values[A::SP].wrapping_add(index * 8);
    let return_address = machine.read_stack(at).ok_or(stop_reason::<A>(walk))?;
    Ok(Guess { return_address, sp: at.wrapping_add(8), fp: walk.register(A::FP as u8) })
}

/// Returns the word below the return address of a caller's stack pointer `sp`, if it is part of the stack.
#[inline(always)]
fn below<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, sp: u64) -> Option<u64> {
    let at = sp.wrapping_sub(16);
    if at < walk.registers.values[A::SP] { None } else { machine.read_stack(at) }
}

/// Returns `true` if code without unwind data returns to other such code, in `mapping`, whose frame links to a valid one.
#[inline(always)]
fn is_chained<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, guess: &Guess, mapping: &Mapping) -> bool {
    if !walk.mapping.is_without_data() || !mapping.is_without_data() {
        return false;
    }
    let Some(fp) = guess.fp.filter(|&fp| is_frame(fp, guess.sp)) else { return false };
    // In the order in which the next step reads.
    let (_, Some(behind)) = (machine.read_stack(fp), machine.read_stack(fp.wrapping_add(8))) else {
        return false;
    };
    let behind = A::strip(behind);
    match walk.mapping_of(machine, behind.wrapping_sub(1)) {
        None => false,
        Some(mapping) => {
            mapping.is_without_data() || A::call_before(machine, behind) != CallInstruction::None
        }
    }
}

/// Returns the stop reason for a frame whose caller is not found.
#[inline(always)]
fn stop_reason<A: Arch>(walk: &Walk) -> Stop {
    let exact = walk.flags & frame::EXACT != 0;
    match walk.register(A::FP as u8) {
        // By convention the outermost frame of a thread has no frame pointer.
        Some(0) if !exact => Stop::Root,
        _ => Stop::Implausible,
    }
}

/// Returns the caller by the frame pointer, or by the stack pointer in a prologue or an epilogue.
#[inline(always)]
fn by_pointer<A: Arch, M: Machine>(walk: &Walk, machine: &mut M, pc: u64) -> Option<Guess> {
    let sp = walk.registers.values[A::SP];
    let fp = walk.register(A::FP as u8);
    let exact = walk.flags & frame::EXACT != 0;
    // The first instructions of a function run before its frame is set up, the last one after it is gone.
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

/// Returns `true` if the frame pointer is plausible.
#[inline(always)]
pub(super) fn is_frame(fp: u64, sp: u64) -> bool {
    fp != 0 && fp & 7 == 0 && fp >= sp && fp.wrapping_sub(sp) <= MAX_FRAME
}
