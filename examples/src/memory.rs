//! Memory that goes back when nobody needs it any more.

/// Lets each large piece of memory go back to the kernel as soon as it is free. To be called before there are threads.
///
/// glibc begins so, for pieces of 128 KiB and more, but raises that bound to the size of each piece that was freed, 32
/// MiB at most. From then on such pieces lie among the small ones of their thread and leave holes, which stay taken. A
/// profiler has large pieces for a moment now and then, tables of symbols and debug information, and small ones that it
/// keeps; within an hour it would hold several times what it uses. A bound that was set stays.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    for (what, bytes) in [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, LARGE)] {
        // SAFETY: it takes numbers only, and no other thread runs yet. What it doesn't take it leaves as it was.
        unsafe { libc::mallopt(what, bytes) };
    }
}

/// What is large, in bytes: where glibc begins.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;
