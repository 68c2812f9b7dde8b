//! Return addresses that the runtime has replaced, to stop a thread when the method at its leaf returns.
//!
//! ```text
//!   return address is that of the runtime's function ──► threads, one by one ──► the one that replaced this word: its original
//! ```
//!
//! The collector stops threads in this way in loops without a point where it may run. The thread keeps the address of the word and
//! the original, side by side.

use super::{parameter, phase};
use crate::abi::dotnet::parameter;
use crate::abi::reason::Stop;
use crate::machine::Machine;
use crate::walk::arch::Arch;
use crate::walk::{Caller, Walk, is_null};

/// Number of threads that are visited in one step; two words of each are read.
const THREADS: u32 = 4;

/// Maximum number of steps through the threads: of 1,024 threads.
const MAX_STEPS: u32 = 256;

/// Returns `true` if a return address has been replaced.
#[inline(always)]
pub(super) fn is_hijacked(walk: &Walk, pc: u64) -> bool {
    pc == parameter(walk, parameter::HIJACKED) && !is_null(pc)
}

/// Begins to search the original of the caller's program counter.
#[inline(always)]
pub(super) fn begin(walk: &mut Walk, caller: &Caller) {
    walk.dotnet.at = parameter(walk, parameter::THREADS);
    walk.dotnet.word = caller.sp.wrapping_sub(8);
    walk.dotnet.fp = caller.fp;
    walk.dotnet.flags = caller.is_fp_known as u64;
    walk.dotnet.enter(phase::HIJACKED);
}

/// Visits some threads. Returns `false` if none of them has replaced the word.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Result<bool, Stop> {
    let offset = parameter(walk, parameter::ORIGINAL);
    let word = walk.dotnet.word;
    let mut visited = 0;
    while visited < THREADS {
        // The link in a thread to the next one.
        let Some(link) = machine.read_memory(walk.dotnet.at) else { return end::<A, M>(walk, machine) };
        if is_null(link) || walk.dotnet.steps > MAX_STEPS {
            return end::<A, M>(walk, machine);
        }
        walk.dotnet.at = link;
        let at = link.wrapping_add(offset);
        if machine.read_memory(at.wrapping_add(8)) == Some(word) {
            let original = machine.read_memory(at).unwrap_or(0);
            return enter::<A>(walk, original);
        }
        visited += 1;
    }
    Ok(true)
}

/// Enters the caller by the word itself: meanwhile the runtime may have restored the original.
#[inline(always)]
fn end<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Result<bool, Stop> {
    let original = machine.read_stack(walk.dotnet.word).ok_or(Stop::Unreadable)?;
    enter::<A>(walk, original)
}

/// Enters the caller at `pc`. Returns `false` if that isn't the original.
#[inline(always)]
fn enter<A: Arch>(walk: &mut Walk, pc: u64) -> Result<bool, Stop> {
    walk.dotnet.phase = phase::START;
    if is_null(pc) || is_hijacked(walk, pc) {
        return Ok(false);
    }
    let (sp, fp) = (walk.dotnet.word.wrapping_add(8), walk.dotnet.fp);
    let is_fp_known = walk.dotnet.flags != 0;
    walk.enter_caller::<A>(&Caller { pc, sp, fp, is_fp_known, kept: None, flags: 0 })?;
    Ok(true)
}
