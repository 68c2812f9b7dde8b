//! Frames of code without unwind data: guesses, accepted only if they can be checked.
//!
//! | guess                                               | accepted if                                           |
//! |-----------------------------------------------------|-------------------------------------------------------|
//! | the code pops a few bytes and returns               | always: only these bytes precede the return address   |
//! | the frame pointer leads to a frame                  | it is aligned, above the stack pointer, and at most 16 MiB from it |
//! | the frame pointer is the argument of the call, an address in the caller's frame | the code before the return address, which is below it, passes that address |
//! | a stack word near the stack pointer is the return address | the call before it has a target at most 128 KiB before here, or an unknown target and the frame is tiny, or it is in the outermost function |
//!
//! In all cases the return address must be in executable memory, after a call instruction. There is one exception: an
//! interpreter that is generated at run time, as Java's is, may return to an address without a call before it. If neither
//! side of such a link has unwind data, the next link must be valid too. The frame is marked as guessed nevertheless.

use super::arch::{Arch, CallInstruction};
use super::{Caller, Walk, native, uretprobe};
use crate::abi::mapping::Mapping;
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::machine::Machine;

/// Maximum distance from the stack pointer to the frame pointer, in bytes.
const MAX_FRAME: u64 = 1 << 24;

/// Number of words between a caller's stack pointer and the argument that points into its frame.
const ARGUMENTS: u64 = 8;

/// Maximum distance from the stack pointer to that argument, in bytes: PCRE's limit is 64 KiB.
const MAX_ARGUMENT: u64 = 1 << 17;

/// Number of stack words that are searched for a return address.
const SEARCHED: u64 = 24;

/// Number of those in which a return address after an indirect call is accepted; further up it may be stale.
const TINY: u64 = 3;

/// Maximum size of a function, in bytes.
const MAX_FUNCTION: u64 = 1 << 17;

/// Numbers of the guesses by stack words.
const FIRST_WORD: u64 = ARGUMENTS + 1;
const LAST_WORD: u64 = ARGUMENTS + SEARCHED;

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
        1..=ARGUMENTS => by_argument::<A, M>(walk, machine, word - 1),
        FIRST_WORD..=LAST_WORD => Some(by_word::<A, M>(walk, machine, word - FIRST_WORD)?),
        _ => return Err(stop_reason::<A>(walk)),
    };
    let Some(mut guess) = guess else { return Ok(()) };
    let returned_at = guess.sp.wrapping_sub(A::RETURN_BELOW);
    let target = walk.uretprobe.original(returned_at).unwrap_or(A::strip(guess.return_address));
    if target == 0 && word == 0 {
        return Err(Stop::Root);
    }
    let Some(mapping) = walk.mapping_of(machine, target.wrapping_sub(1)) else {
        uretprobe::begin_guess(walk, machine, target, returned_at);
        return Ok(());
    };
    let call = A::call_before(machine, target);
    if call == CallInstruction::None && word > ARGUMENTS {
        // Java's compiled code saves the frame pointer at the end of its frame, below the return address.
        guess.fp = below::<A, M>(walk, machine, guess.sp);
    }
    let is_accepted = match call {
        CallInstruction::None => is_chained::<A, M>(walk, machine, &guess, &mapping),
        _ if word == 0 => true,
        CallInstruction::Indirect if word < FIRST_WORD + TINY => true,
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

/// Returns the caller under the assumption that the frame pointer is the address that it passed, `index` words above its stack
/// pointer. The code that PCRE compiles keeps it there, and its frame has no other mark:
///
/// ```text
///   caller   lea rdi, [rsp + 8 * index]; …; call rsi
///
///   stack pointer   saved words | saved registers | return address | index words | argument …     caller's frame
///                                                                                ▲ frame pointer
/// ```
#[inline(always)]
fn by_argument<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, index: u64) -> Option<Guess> {
    let sp = walk.registers.values[A::SP];
    let argument = walk.register(A::FP as u8).filter(|&fp| fp & 7 == 0 && fp > sp);
    let Some(argument) = argument.filter(|&fp| fp.wrapping_sub(sp) <= MAX_ARGUMENT) else {
        walk.guesses = FIRST_WORD as u32 + 1;
        return None;
    };
    let caller_sp = argument.wrapping_sub(index * 8);
    let at = caller_sp.wrapping_sub(8);
    let return_address = machine.read_stack(at).filter(|_| at >= sp)?;
    let passed = A::stack_argument(machine, A::strip(return_address));
    (passed == Some(index * 8)).then_some(Guess { return_address, sp: caller_sp, fp: None })
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
