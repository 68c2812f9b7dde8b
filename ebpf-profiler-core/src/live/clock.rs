//! What time it is.

use std::time::SystemTime;

use super::perf;
use crate::pipeline::Clock;

/// How the kernel's clock and the time of day hang together now.
pub(super) fn now() -> Clock {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Clock { offset: (now.as_nanos() as u64).wrapping_sub(perf::clock_now(libc::CLOCK_MONOTONIC)) }
}
