//! Time limits of walks: a walk runs with interrupts off, and a stack that is built for it can take thousands of slow steps.

use ebpf_programs::abi::config::{
    Config, MAX_HALVINGS, SLOW_WALKS as SLOW_WALKS_ENTRIES, SLOW_WINDOW, SlowWalks,
};

use crate::maps::SLOW_WALKS;

/// Returns the time at which a walk that begins at `now` ends, unless it finds frames.
#[inline(always)]
pub(crate) fn end(config: &Config, pid: u32, now: u64) -> u64 {
    let count = match entry(pid) {
        // SAFETY: the value stays allocated while the program runs; a torn one gives another limit.
        Some(slow) => unsafe { if (*slow).pid == pid && now < (*slow).until { (*slow).count } else { 0 } },
        None => 0,
    };
    let halvings = if count > 1 { count - 1 } else { 0 };
    now + (config.walk_nanos as u64 >> (halvings & 7))
}

/// Halves the limit of a process whose walk took too long, unless it was the first one.
#[inline(always)]
pub(crate) fn halve(pid: u32, now: u64) {
    let Some(slow) = entry(pid) else { return };
    // SAFETY: as above.
    let slow = unsafe { &mut *slow };
    let before = if slow.pid == pid && now < slow.until { slow.count } else { 0 };
    slow.count = if before <= MAX_HALVINGS { before + 1 } else { before };
    (slow.pid, slow.until) = (pid, now + SLOW_WINDOW);
}

#[inline(always)]
fn entry(pid: u32) -> Option<*mut SlowWalks> {
    SLOW_WALKS.get_ptr_mut(pid & (SLOW_WALKS_ENTRIES - 1))
}
