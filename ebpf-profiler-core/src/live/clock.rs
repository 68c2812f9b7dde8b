//! What time it is.

use super::perf;
use crate::pipeline::Clock;

/// How often both clocks are read.
const TRIES: u32 = 5;

/// How the kernel's clock and the time of day hang together now.
///
/// One is read after the other, and in between the thread may have to wait for a CPU: of some tries the shortest counts.
pub(super) fn now() -> Clock {
    let attempt = |_| {
        let before = perf::clock_now(libc::CLOCK_MONOTONIC);
        let day = perf::clock_now(libc::CLOCK_REALTIME);
        let length = perf::clock_now(libc::CLOCK_MONOTONIC) - before;
        (length, day.wrapping_sub(before + length / 2))
    };
    let (_, offset) = (0..TRIES).map(attempt).min().unwrap_or_default();
    Clock { offset }
}
