//! Time limits of walks: a walk runs with interrupts off, and a stack that is built for it can take thousands of slow steps.

use ebpf_programs::abi::config::{Config, SLOW_WALKS as SLOW_WALKS_ENTRIES, SlowWalks};

use crate::maps::SLOW_WALKS;

/// Returns the time at which a walk that begins at `now` ends, unless it finds frames.
#[inline(always)]
pub(crate) fn end(config: &Config, pid: u32, now: u64) -> u64 {
    let halvings = match entry(pid) {
        // SAFETY: the value stays allocated while the program runs; a torn one gives another limit.
        Some(slow) => unsafe { (*slow).halvings(pid, now) },
        None => 0,
    };
    now + (config.walk_nanos as u64 >> (halvings & 7))
}

/// Notes that a walk took too long.
#[inline(always)]
pub(crate) fn note(pid: u32, now: u64) {
    if let Some(slow) = entry(pid) {
        // SAFETY: as above.
        unsafe { (*slow).add(pid, now) };
    }
}

#[inline(always)]
fn entry(pid: u32) -> Option<*mut SlowWalks> {
    SLOW_WALKS.get_ptr_mut(pid & (SLOW_WALKS_ENTRIES - 1))
}
