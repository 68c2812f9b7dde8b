//! A profile of running programs, in steady state.

use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Builder;
use ebpf_profiler_core::profile::{Call, Profile};

/// Time before the samples that count: until the tables are ready, stacks are copied, and deep ones
/// truncated.
const WARM_UP: Duration = Duration::from_secs(2);

/// Maximum number of further warm-ups, while a process has no sample with script frames: its
/// runtime isn't attached, or it had no time.
const MORE: u32 = 15;

/// Sampling frequency per CPU of tests that don't depend on it, in Hz.
pub const FREQUENCY: u32 = 997;

/// Longest time in which samples are unwound and named at the end.
const DEADLINE: Duration = Duration::from_secs(300);

/// Profiles processes for `duration`, after the warm-up.
pub fn profile(pids: impl IntoIterator<Item = u32>, duration: Duration) -> Profile {
    let pids: Vec<u32> = pids.into_iter().collect();
    let profiler = profiler(pids.iter().copied(), FREQUENCY);
    for _ in 0..=MORE {
        std::thread::sleep(WARM_UP);
        let before = profiler.take_profile().unwrap_or_else(|error| panic!("{error}"));
        if pids.iter().all(|&pid| is_attached(&before, pid)) {
            break;
        }
    }
    std::thread::sleep(duration);
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    // Runtimes enter some of their code in unusual ways.
    let summary = profile.summary();
    assert!(
        summary.doubtful <= summary.samples / 100,
        "{} of {} doubtful",
        summary.doubtful,
        summary.samples
    );
    profile
}

/// Maximum time of a walk: which frames a stack has is compared, and not how fast the memory of the machine is.
const WALK_TIME: Duration = Duration::from_millis(50);

/// Starts a profiler of processes and their children, with the rules of all files and all
/// languages, at a frequency in Hz.
pub fn profiler(pids: impl IntoIterator<Item = u32>, frequency: u32) -> Profiler {
    let builder = Profiler::builder()
        .deadline(DEADLINE)
        .frequency(frequency)
        .walk_time(WALK_TIME)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all());
    let builder = pids.into_iter().fold(builder, Builder::pid);
    builder.start().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns `true` if a process has a sample with a script frame.
fn is_attached(profile: &Profile, pid: u32) -> bool {
    let is_script = |call| matches!(call, Call::Function { frame, .. } if frame.script().is_some());
    let mut own = profile.samples().filter(|sample| sample.process().pid == pid);
    own.any(|sample| sample.trace().calls().any(is_script))
}
