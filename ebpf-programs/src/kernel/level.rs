//! Levels of per-CPU state.
//!
//! A program at an event may be interrupted by a program at another event on the same CPU: a tick interrupts a uprobe's
//! program. Uprobe programs are also preempted, and another thread runs one on the same CPU meanwhile, so levels are not
//! released in the order in which they were claimed: each has a flag.
//!
//! ```text
//!   slot = CPU × levels + level      the index in SCRATCH and COUNTERS
//! ```
//!
//! The clock alone never interrupts itself. It needs one level, and no flag: the loader sets [`LEVELS`] before the programs are
//! verified, and the verifier removes the code for others.

use ebpf_programs::abi::config::MAX_LEVELS;

use crate::LEVELS;
use crate::maps::CLAIMS;

/// Flags of one CPU, 1 where claimed: one for each level, then that of the per-CPU buffer. The last word is a cookie, if links have none.
pub(crate) type Claims = [u64; 8];

/// Index of the flag of the per-CPU buffer.
const BUFFER: usize = MAX_LEVELS as usize;

/// Returns the number of levels, a constant for the verifier.
#[inline(always)]
fn levels() -> u32 {
    // SAFETY: it is a constant; volatile, because the loader has replaced it.
    unsafe { (&raw const LEVELS).read_volatile() }
}

/// Returns the slot of the first level of `cpu`.
#[inline(always)]
pub(crate) fn first(cpu: u32) -> u32 {
    cpu * levels()
}

/// Claims a level of `cpu`. Returns its slot; `None` if all levels are in use.
#[inline(always)]
pub(crate) fn claim(cpu: u32) -> Option<u32> {
    if levels() == 1 {
        return Some(cpu);
    }
    for level in 0..MAX_LEVELS {
        if swap(cpu, level as usize, 1) == 0 {
            return Some(cpu * MAX_LEVELS + level);
        }
    }
    None
}

/// Releases a slot.
#[inline(always)]
pub(crate) fn release(slot: u32) {
    if levels() > 1 {
        swap(slot / MAX_LEVELS, (slot % MAX_LEVELS) as usize, 0);
    }
}

/// Claims the per-CPU buffer. Returns `false` if an interrupted program writes to it.
#[inline(always)]
pub(crate) fn claim_buffer(cpu: u32) -> bool {
    levels() == 1 || swap(cpu, BUFFER, 1) == 0
}

/// Releases the per-CPU buffer.
#[inline(always)]
pub(crate) fn release_buffer(cpu: u32) {
    if levels() > 1 {
        swap(cpu, BUFFER, 0);
    }
}

/// Sets a flag of `cpu` and returns its former value; 1 if there is none.
#[inline(always)]
fn swap(cpu: u32, index: usize, to: u64) -> u64 {
    let Some(claims) = CLAIMS.get_ptr_mut(cpu) else { return 1 };
    // SAFETY: the index is in bounds after the mask.
    unsafe { exchange(&raw mut (*claims)[index & 7], to) }
}

/// Sets a flag and returns its former value in one atomic operation.
///
/// # Safety
///
/// `flag` is in a map value, and all accesses to it are such operations.
#[cfg(not(feature = "kernel_5_10"))]
#[inline(always)]
unsafe fn exchange(flag: *mut u64, to: u64) -> u64 {
    let mut value = to;
    // SAFETY: the flag is writable, as the caller guarantees. This target's atomic types have loads and stores only.
    unsafe {
        core::arch::asm!("{value} = xchg_64({flag} + 0, {value})", flag = in(reg) flag, value = inout(reg) value);
    }
    value
}

/// Sets a flag and returns its former value. Kernels before 5.12 have no exchange, and need none: there no program is preempted, so that
/// one that interrupts another has released what it claimed when the other goes on.
///
/// # Safety
///
/// As above.
#[cfg(feature = "kernel_5_10")]
#[inline(always)]
unsafe fn exchange(flag: *mut u64, to: u64) -> u64 {
    // SAFETY: as above.
    unsafe {
        let former = flag.read_volatile();
        flag.write_volatile(to);
        former
    }
}
