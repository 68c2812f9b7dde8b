//! The limit of locked memory, which older kernels apply to programs and maps.

#![expect(unsafe_code, reason = "system calls that the standard library does not have")]

use super::feature::KernelFeature;

/// Lifts the limit of this process where the kernel applies it: as far as it permits, which is entirely with `CAP_SYS_RESOURCE`.
pub(in crate::live) fn raise() {
    if KernelFeature::Accounting.is_missing() && !set(libc::RLIM_INFINITY, libc::RLIM_INFINITY) {
        let hard = limits().rlim_max;
        set(hard, hard);
    }
}

/// Returns the limit in bytes that a profiler exceeds, which it can't lift; `None` if there is none.
pub(in crate::live) fn too_low() -> Option<u64> {
    /// Size of the maps of a small machine.
    const NEEDED: u64 = 256 << 20;
    let limit = limits().rlim_max;
    let may_raise = crate::live::machine::capability::SYS_RESOURCE.is_held();
    (limit < NEEDED && !may_raise && KernelFeature::Accounting.is_missing()).then_some(limit)
}

fn limits() -> libc::rlimit {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes one `rlimit`.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limits) };
    limits
}

fn set(soft: u64, hard: u64) -> bool {
    let limits = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the call reads one `rlimit`.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limits) == 0 }
}
