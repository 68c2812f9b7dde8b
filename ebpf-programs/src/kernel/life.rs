//! What can't wait for user space to hear of it.
//!
//! User space follows the life of processes through events that arrive a moment later. A process that became
//! another program must not be walked through its former mappings in that moment, nor one that was given the
//! id of an ended one: the kernel side forgets both at once, and the next tick goes up raw.

use aya_ebpf::helpers::generated::bpf_get_current_pid_tgid;

use crate::maps::PROCESSES;

/// Forgets the current process, if this is its first thread.
#[inline(always)]
pub(crate) fn forget_current() {
    // SAFETY: the helper has no conditions.
    let ids = unsafe { bpf_get_current_pid_tgid() };
    let (pid, tid) = ((ids >> 32) as u32, ids as u32);
    if pid == tid {
        // Most processes were never known.
        let _ = PROCESSES.remove(pid);
    }
}
