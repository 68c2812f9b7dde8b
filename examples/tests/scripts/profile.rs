//! A profile of running programs, in steady state.

use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;

/// Time before the samples that count: until the tables are ready, stacks are copied, and deep ones truncated.
const WARM_UP: Duration = Duration::from_secs(2);

/// Sampling frequency per CPU, in Hz.
const FREQUENCY: u32 = 997;

/// Profiles processes for `duration`, after the warm-up.
pub(crate) fn profile(pids: impl IntoIterator<Item = u32>, duration: Duration) -> Profile {
    let builder = Profiler::builder()
        .deadline(Duration::from_secs(120))
        .frequency(FREQUENCY)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all());
    let builder = pids.into_iter().fold(builder, |builder, pid| builder.pid(pid));
    let profiler = builder.start().unwrap_or_else(|error| panic!("{error}"));
    std::thread::sleep(WARM_UP);
    drop(profiler.take_profile().unwrap_or_else(|error| panic!("{error}")));
    std::thread::sleep(duration);
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    profile
}
