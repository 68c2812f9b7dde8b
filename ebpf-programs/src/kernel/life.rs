//! What can't wait for user space to hear of it.
//!
//! User space follows the life of processes through events that arrive a moment later. A process that became
//! another program must not be walked through its former mappings in that moment, nor one that was given the
//! id of an ended one: the kernel side forgets both at once, and the next tick goes up raw.
//!
//! The child of a fork has its parent's mappings, so what is known of the parent holds for it from its first tick
//! on.

use aya_ebpf::helpers::generated::{bpf_get_current_pid_tgid, bpf_probe_read_kernel};
use aya_ebpf::programs::RawTracePointContext;

use crate::maps::{CONFIG, PROCESSES};

/// Forgets the current process, if this is its first thread.
#[inline(always)]
pub(crate) fn remove_current() {
    // SAFETY: the helper has no conditions.
    let ids = unsafe { bpf_get_current_pid_tgid() };
    let (pid, tid) = ((ids >> 32) as u32, ids as u32);
    if pid == tid {
        // Most processes were never known.
        let _ = PROCESSES.remove(pid);
    }
}

/// Lets the child of a fork be known as its parent is, which is the current process.
#[inline(always)]
pub(crate) fn inherit(context: &RawTracePointContext) {
    /// The tracepoint's arguments are the parent's `task_struct` and the child's.
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
    // SAFETY: the value is copied; a torn one leads to a walk that stops with a reason.
    if let Some(process) = unsafe { PROCESSES.get(parent) }.copied() {
        // Where there is no room its first tick goes up raw.
        let _ = PROCESSES.insert(tgid, process, 0);
    }
}

/// The id at byte `at` of a `task_struct`.
#[inline(always)]
fn id(task: u64, at: u32) -> Option<u32> {
    let mut id = 0u32;
    // SAFETY: `id` has four bytes; the helper fails without a fault.
    let error =
        unsafe { bpf_probe_read_kernel((&raw mut id).cast(), 4, task.wrapping_add(at as u64) as *const _) };
    (at != 0 && error == 0).then_some(id)
}
