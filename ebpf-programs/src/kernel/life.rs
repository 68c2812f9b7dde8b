//! Process events that the kernel side handles itself: exec, fork, exit.
//!
//! User space receives these events with a delay. In the meantime a process must not be unwound with the mappings that it
//! had before an exec, nor with those of an ended process with the same id. The kernel side removes such entries at once;
//! the next sample is sent raw.
//!
//! The child of a fork has its parent's mappings, so it inherits its parent's published state.

use aya_ebpf::helpers::generated::{bpf_get_current_pid_tgid, bpf_probe_read_kernel};
use aya_ebpf::programs::RawTracePointContext;

use crate::maps::{CONFIG, PROCESSES, WANTED};

/// Returns `true` if samples of a process without published state are dropped: it is not one of those that are wanted.
#[inline(always)]
pub(crate) fn is_unwanted(pid: u32) -> bool {
    WANTED.get_ptr_mut(0).is_some() && WANTED.get_ptr_mut(pid).is_none()
}

/// Removes the published state of the current process, if this is its first thread.
#[inline(always)]
pub(crate) fn remove_current() {
    // SAFETY: the helper has no conditions.
    let ids = unsafe { bpf_get_current_pid_tgid() };
    let (pid, tid) = ((ids >> 32) as u32, ids as u32);
    if pid == tid {
        // Most processes have no published state: not an error.
        let _ = PROCESSES.remove(pid);
    }
}

/// Copies the published state of the current process to its new child.
#[inline(always)]
pub(crate) fn inherit(context: &RawTracePointContext) {
    /// Index of the child's `task_struct` in the tracepoint's arguments, after the parent's.
    const CHILD: usize = 1;
    let Some(config) = CONFIG.get(0) else { return };
    let child: u64 = context.arg(CHILD);
    let (Some(pid), Some(tgid)) = (id(child, config.pid_offset), id(child, config.tgid_offset)) else {
        return;
    };
    // SAFETY: the helper has no conditions.
    let parent = (unsafe { bpf_get_current_pid_tgid() } >> 32) as u32;
    if pid != tgid || tgid == parent {
        // A thread.
        return;
    }
    if WANTED.get_ptr_mut(parent).is_some() {
        // Fails for lack of memory only: then the child's samples are dropped until user space knows it.
        let _ = WANTED.insert(tgid, 0, 0);
    }
    // SAFETY: the value is copied; a torn one has the number of a state of another process.
    if let Some(process) = unsafe { PROCESSES.get(parent) }.copied() {
        // If the map is full, the child's first sample is sent raw.
        let _ = PROCESSES.insert(tgid, process, 0);
    }
}

/// Returns the id at byte offset `at` of a `task_struct`; `None` if the offset is unknown (0).
#[inline(always)]
fn id(task: u64, at: u32) -> Option<u32> {
    let mut id = 0u32;
    // SAFETY: `id` has four bytes; the helper fails without a fault.
    let error =
        unsafe { bpf_probe_read_kernel((&raw mut id).cast(), 4, task.wrapping_add(at as u64) as *const _) };
    (at != 0 && error == 0).then_some(id)
}
