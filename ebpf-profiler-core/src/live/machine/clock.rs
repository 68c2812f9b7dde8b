//! The offset between the kernel's clock and the time of day.

use crate::live::kernel::perf;
use crate::pipeline::Clock;

/// Number of attempts to read both clocks.
const TRIES: u32 = 5;

/// Returns the current offset from the kernel's clock to the time of day.
///
/// The thread may be preempted between reading the two clocks, so the shortest of several attempts
/// counts.
pub(in crate::live) fn now() -> Clock {
    let attempt = |_| {
        let before = perf::clock_now(libc::CLOCK_MONOTONIC);
        let day = perf::clock_now(libc::CLOCK_REALTIME);
        let length = perf::clock_now(libc::CLOCK_MONOTONIC) - before;
        (length, day.wrapping_sub(before + length / 2))
    };
    let (_, offset) = (0..TRIES).map(attempt).min().unwrap_or_default();
    Clock { offset }
}
