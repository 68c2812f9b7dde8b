//! The calling thread.

#![expect(unsafe_code, reason = "a system call that the standard library does not have")]

/// Returns the id of the calling thread.
pub(in crate::live) fn id() -> u32 {
    // SAFETY: the call has no conditions.
    unsafe { libc::gettid() as u32 }
}
