//! States of threads that wait, in sets of an array.
//!
//! A lookup in a hash table of the kernel costs 25 ns, and a switch needs two. The kernel compiles a lookup in an array to a few
//! instructions. Thread ids are handed out one after another, so that the sets fill evenly.

use core::arch::asm;

use ebpf_programs::abi::off_cpu::{SETS, Switched, SwitchedSet, WAYS};

use crate::maps::SWITCHED;

/// Id in a place that is being filled.
const BUSY: u32 = u32::MAX;

/// Returns the state of a thread.
#[inline(always)]
pub(crate) fn find(tid: u32) -> Option<*mut Switched> {
    let set = set(tid)?;
    // SAFETY: values of an array stay allocated while the program runs.
    (0..WAYS).find_map(|way| unsafe { ((*set).tids[way] == tid).then(|| &raw mut (*set).states[way]) })
}

/// Adds a thread. Returns `false` if there is no room.
#[inline(always)]
pub(crate) fn insert(tid: u32, switched: Switched) -> bool {
    let Some(set) = set(tid) else { return false };
    for way in 0..WAYS {
        // SAFETY: as above. No other CPU writes to a place between the two exchanges.
        unsafe {
            let id = &raw mut (*set).tids[way];
            if *id == 0 && claim(id) {
                (*set).states[way] = switched;
                swap(id, tid);
                return true;
            }
        }
    }
    false
}

/// Removes a thread, which may be unknown.
#[inline(always)]
pub(crate) fn remove(tid: u32) {
    let Some(set) = set(tid) else { return };
    for way in 0..WAYS {
        // SAFETY: as above.
        unsafe {
            if (*set).tids[way] == tid {
                (*set).tids[way] = 0;
            }
        }
    }
}

/// Returns the set of a thread; `None` for that of an idle CPU.
#[inline(always)]
fn set(tid: u32) -> Option<*mut SwitchedSet> {
    if tid == 0 {
        return None;
    }
    SWITCHED.get_ptr_mut(tid % SETS)
}

/// Claims a free place; `false` if another CPU was faster.
///
/// # Safety
/// `id` is in a value of a map.
#[inline(always)]
unsafe fn claim(id: *mut u32) -> bool {
    let mut former = 0;
    // SAFETY: the caller's promise. The instruction compares with `w0` and leaves the former value there.
    unsafe {
        asm!("w0 = cmpxchg32_32({id} + 0, w0, {busy})", id = in(reg) id, busy = in(wreg) BUSY, inout("w0") former);
    }
    former == 0
}

/// Writes an id after all that was written before.
///
/// # Safety
/// As [`claim`].
#[inline(always)]
unsafe fn swap(id: *mut u32, tid: u32) {
    // SAFETY: the caller's promise.
    unsafe { asm!("{value} = xchg32_32({id} + 0, {value})", id = in(reg) id, value = inout(wreg) tid => _) };
}
