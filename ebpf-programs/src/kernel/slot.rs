//! Slots of working memory.
//!
//! A program at an event may be interrupted by a program at another event on the same CPU: a tick interrupts a uprobe's
//! program. Uprobe programs are also preempted, and another thread runs one on the same CPU meanwhile, so slots are not
//! released in the order in which they were claimed: each has a flag.
//!
//! ```text
//!   slot    0 … CPUS - 1                  of the CPU with that number
//!           CPUS … CPUS + SHARED - 1      of all CPUs: for an event that interrupts another, or on a CPU that came online later
//!   row     slot                          of COUNTERS: events in the slot
//!           CPUS + SHARED + CPU           events that are lost on the CPU before they have a slot
//! ```
//!
//! A CPU tries eight of the shared slots, from a different one on than its neighbours. The buffers of raw records, of which there
//! are fewer than CPUs, are shared in the same way.
//!
//! A clock that is the only trigger never interrupts itself, and needs no flag on a CPU with a slot of its own. The loader sets
//! [`NESTED`] before the programs are verified; if it is 0, the verifier removes the code for flags.

use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use ebpf_programs::abi::reason::Counter;

use crate::maps::CLAIMS;
use crate::{CPUS, NESTED, RAW_BUFFERS, SHARED};

/// Flags, 1 where claimed: of the slot with this index, of the per-CPU buffer of the CPU, and of the raw record. The last word is the
/// cookie of an event on the CPU, if links have none.
pub(crate) type Claims = [u64; 8];

/// Indices of the flags.
const SLOT: usize = 0;
const BUFFER: usize = 1;
const RAW: usize = 2;

/// Number of shared slots that an event tries. Without an atomic exchange it is one that no other CPU tries.
const TRIES: u32 = if cfg!(feature = "kernel_5_10") { 1 } else { 8 };

/// Returns a constant that the loader has set.
macro_rules! constant {
    ($name:ident) => {
        // SAFETY: it is a constant; volatile, because the loader has replaced it.
        unsafe { (&raw const $name).read_volatile() }
    };
}

/// Returns the row of the counters for events that are lost on a CPU before they have a slot.
#[inline(always)]
pub(crate) fn lost_row(cpu: u32) -> u32 {
    constant!(CPUS) + constant!(SHARED) + cpu
}

/// Returns the counter of events for which there is no slot on a CPU.
#[inline(always)]
pub(crate) fn loss(cpu: u32) -> Counter {
    if cpu < constant!(CPUS) { Counter::Nested } else { Counter::NewCpu }
}

/// Claims a slot for an event on `cpu`. Returns `None` if all those that it tries are in use.
#[inline(always)]
pub(crate) fn claim(cpu: u32) -> Option<u32> {
    if cpu < constant!(CPUS) {
        if constant!(NESTED) == 0 || swap(cpu, SLOT, 1) == 0 {
            return Some(cpu);
        }
    } else if cfg!(feature = "kernel_5_10") {
        return None;
    }
    for turn in 0..TRIES {
        let slot = constant!(CPUS) + (cpu.wrapping_add(turn) & (constant!(SHARED) - 1));
        if swap(slot, SLOT, 1) == 0 {
            return Some(slot);
        }
    }
    None
}

/// Releases a slot of this CPU.
#[inline(always)]
pub(crate) fn release(slot: u32) {
    // The slot would tell as well, but then the verifier would follow the walk once for each kind of slot.
    // SAFETY: the helper has no conditions.
    if constant!(NESTED) != 0 || unsafe { bpf_get_smp_processor_id() } >= constant!(CPUS) {
        swap(slot, SLOT, 0);
    }
}

/// Claims the per-CPU buffer. Returns `false` if an interrupted program writes to it.
#[inline(always)]
pub(crate) fn claim_buffer(cpu: u32) -> bool {
    constant!(NESTED) == 0 || swap(cpu, BUFFER, 1) == 0
}

/// Releases the per-CPU buffer.
#[inline(always)]
pub(crate) fn release_buffer(cpu: u32) {
    if constant!(NESTED) != 0 {
        swap(cpu, BUFFER, 0);
    }
}

/// Claims a buffer for a raw record. Returns its index; `None` if all those that are tried are in use.
#[inline(always)]
pub(crate) fn claim_raw(cpu: u32) -> Option<u32> {
    for turn in 0..TRIES {
        let index = cpu.wrapping_add(turn) & (constant!(RAW_BUFFERS) - 1);
        if swap(index, RAW, 1) == 0 {
            return Some(index);
        }
    }
    None
}

/// Releases a buffer for a raw record.
#[inline(always)]
pub(crate) fn release_raw(index: u32) {
    swap(index, RAW, 0);
}

/// Sets a flag of an entry and returns its former value; 1 if there is no such entry.
#[inline(always)]
fn swap(entry: u32, flag: usize, to: u64) -> u64 {
    let Some(claims) = CLAIMS.get_ptr_mut(entry) else { return 1 };
    // SAFETY: the index is in bounds after the mask.
    unsafe { exchange(&raw mut (*claims)[flag & 7], to) }
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
