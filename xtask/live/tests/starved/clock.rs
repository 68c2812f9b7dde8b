//! The kernel's own clock: as many ticks as this machine delivers.

use std::io;

use live_suite::perf_ring::{self as perf, Ring};

/// Bytes of records for each CPU.
const BYTES: usize = 1 << 20;

/// A running clock.
pub(crate) struct Clock(Vec<Ring>);

impl Clock {
    /// Starts a clock on each CPU.
    pub(crate) fn start(frequency: u32) -> io::Result<Clock> {
        const SOFTWARE: u64 = 1;
        const CPU_CLOCK: u64 = 0;
        const NO_FIELDS: u64 = 0;
        let attributes =
            perf::attributes(SOFTWARE, CPU_CLOCK, 1_000_000_000 / u64::from(frequency), NO_FIELDS);
        perf::cpus().map(|cpu| Ring::open(&attributes, cpu, BYTES)).collect::<io::Result<_>>().map(Clock)
    }

    /// Stops the clock and returns the number of ticks.
    pub(crate) fn ticks(self) -> usize {
        self.0.iter().flat_map(Ring::records).filter(|record| record.kind == perf::SAMPLE).count()
    }
}
