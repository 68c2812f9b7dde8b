//! Settings of the allocator.

/// Makes glibc return each allocation of at least 128 KiB to the kernel when it is freed. Call it
/// before starting threads.
///
/// By default glibc raises that threshold to the size of each such allocation that is freed, up to
/// 32 MiB. Later ones then share the heap with small allocations and leave holes that stay
/// resident. A profiler makes large allocations for tables of symbols and debug information, and
/// small ones that it keeps: within an hour it would hold several times the memory that it uses.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    for (what, bytes) in [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, LARGE)] {
        // SAFETY: the arguments are numbers, and no other thread runs yet. On failure nothing changes.
        unsafe { libc::mallopt(what, bytes) };
    }
}

/// Threshold in bytes; glibc's initial value.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;
