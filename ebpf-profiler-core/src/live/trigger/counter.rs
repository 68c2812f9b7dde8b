//! Events that the kernel counts on each CPU.

use super::error::AttachError;

/// An event that the kernel counts, by its numbers in the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::live) struct Counter {
    pub(super) name: &'static str,
    /// Type of the event: [`HARDWARE`] or [`SOFTWARE`].
    pub(super) kind: u32,
    pub(super) number: u64,
    /// Number of events for each sample, by default.
    pub(super) period: u32,
}

pub(super) const HARDWARE: u32 = 0;
pub(super) const SOFTWARE: u32 = 1;

impl Counter {
    const fn software(name: &'static str, number: u64) -> Counter {
        Counter { name, kind: SOFTWARE, number, period: 1 }
    }

    const fn hardware(name: &'static str, number: u64, period: u32) -> Counter {
        Counter { name, kind: HARDWARE, number, period }
    }
}

pub(super) const PAGE_FAULTS: Counter = Counter::software("page-faults", 2);
pub(super) const CYCLES: Counter = Counter::hardware("cycles", 0, 10_000_019);
pub(super) const CACHE_MISSES: Counter = Counter::hardware("cache-misses", 3, 10_007);

/// All counters. Default periods are primes, so that samples keep no step with a loop.
pub(super) const COUNTERS: [Counter; 9] = [
    PAGE_FAULTS,
    Counter::software("minor-faults", 5),
    Counter::software("major-faults", 6),
    CYCLES,
    Counter::hardware("instructions", 1, 10_000_019),
    Counter::hardware("cache-references", 2, 100_003),
    CACHE_MISSES,
    Counter::hardware("branches", 4, 1_000_003),
    Counter::hardware("branch-misses", 5, 10_007),
];

/// Fails on a machine without counters of hardware events.
pub(super) fn check_hardware() -> Result<(), AttachError> {
    // CPUs with cores of two sorts have one device for each.
    let is_there = |name| std::path::Path::new("/sys/bus/event_source/devices").join(name).exists();
    if is_there("cpu") || is_there("cpu_core") {
        return Ok(());
    }
    Err(AttachError::unsupported(
        "this machine has no performance counters (PMU); a virtual machine gets them from its host",
    ))
}
