//! Who comes first when every CPU is busy.

#![expect(unsafe_code, reason = "system calls that the standard library does not have")]

/// Lets this thread run before ordinary ones, where that is permitted.
///
/// It is for the thread that empties the kernel's buffers: it has next to nothing to do, but when it comes late
/// the ring is full, and ticks are lost.
pub(super) fn raise() {
    const THIS_THREAD: libc::id_t = 0;
    const NICENESS: i32 = -10;
    // SAFETY: the call changes nothing but when this thread runs.
    // Without the privilege the thread stays as it is.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, NICENESS) };
}
