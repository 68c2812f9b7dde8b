//! The profiler under test, as all comparisons run it.

use ebpf_profiler_core::live::Health;
use ebpf_profiler_core::profile::Profile;

/// Sampling frequency per CPU, in Hz.
const FREQUENCY: u32 = 997;

/// Profiles these processes and what they fork while `meanwhile` runs, and returns its result too.
pub(crate) fn profile<T>(pids: &[u32], meanwhile: impl FnOnce() -> T) -> (Profile, T) {
    let (profile, _, said) = profile_and_count(pids, meanwhile);
    (profile, said)
}

/// Profiles like [`profile`] and returns the profiler's counters too.
pub(crate) fn profile_and_count<T>(pids: &[u32], meanwhile: impl FnOnce() -> T) -> (Profile, Health, T) {
    let profiler = live_suite::sampled::profiler(pids.iter().copied(), FREQUENCY);
    let said = meanwhile();
    let (profile, health) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    (profile, health, said)
}
