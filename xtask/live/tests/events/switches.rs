//! A trace of all switches of the machine from thread to thread, in the kernel's buffers for perf
//! events.
//!
//! The times are read at the tracepoint, from the clock that the profiler's programs read. The
//! statistics of the scheduler count from another clock, which it reads at other moments: under
//! load they differ by milliseconds.

use std::collections::BTreeMap;
use std::io;

use crate::tracefs::Tracepoint;
use live_suite::perf_ring::{self as perf, Record, Ring};

/// A running trace.
pub(crate) struct Switches {
    rings: Vec<Ring>,
    previous_tid: usize,
    next_tid: usize,
}

/// The switches of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Time of its creation in nanoseconds; 0 if it was created before the trace.
    pub(crate) created: u64,
    /// Nanoseconds from its creation, or the switch that took it off its CPU, to the switch that
    /// brought it back; each time.
    pub(crate) waits: Vec<u64>,
    /// Number of them that ended after the profiler began to stop: a thread outlives its last
    /// words.
    pub(crate) late: u64,
}

/// One record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    time: u64,
    /// The thread that leaves the CPU; `None` for the creation of a thread.
    from: Option<u32>,
    to: u32,
}

/// Bytes of records for each CPU: some 150,000 switches.
const BYTES: usize = 16 << 20;

impl Switches {
    /// Starts the trace. Needs tracefs.
    pub(crate) fn trace() -> io::Result<Switches> {
        let tracepoint = Tracepoint::read("sched/sched_switch")?;
        let rings = perf::cpus().map(|cpu| Ring::open(&attributes(tracepoint.id), cpu, BYTES));
        let rings = rings.collect::<io::Result<_>>()?;
        let offset = |field| tracepoint.offset(field);
        Ok(Switches { rings, previous_tid: offset("prev_pid"), next_tid: offset("next_pid") })
    }

    /// Ends the trace. Returns the waits of each thread by its number. The profiler began to stop
    /// at `stop` nanoseconds.
    pub(crate) fn waits(self, stop: u64) -> BTreeMap<u32, Waits> {
        let mut changes: Vec<Change> = self.rings.iter().flat_map(|ring| self.changes(ring)).collect();
        changes.sort_unstable();
        let (mut waiting, mut threads) = (BTreeMap::new(), BTreeMap::<u32, Waits>::new());
        for Change { time, from, to } in changes {
            let Some(from) = from else {
                waiting.insert(to, time);
                threads.entry(to).or_default().created = time;
                continue;
            };
            if let Some(since) = waiting.remove(&to) {
                let thread = threads.entry(to).or_default();
                thread.waits.push(time - since);
                thread.late += u64::from(time > stop);
            }
            waiting.insert(from, time);
        }
        threads
    }

    fn changes(&self, ring: &Ring) -> Vec<Change> {
        let change = |record: Record<'_>| match record.kind {
            // The length of the tracepoint's bytes stands between the time and them.
            perf::SAMPLE => {
                let (from, to) = (record.u32(20 + self.previous_tid), record.u32(20 + self.next_tid));
                Some(Change { time: record.u64(8), from: Some(from), to })
            }
            // Process and thread, each with its parent's number behind it.
            perf::FORK => Some(Change { time: record.u64(24), from: None, to: record.u32(16) }),
            _ => None,
        };
        ring.records().filter_map(change).collect()
    }
}

/// Returns the attributes of a tracepoint, whose records have the time.
fn attributes(tracepoint: u64) -> [u64; perf::ATTRIBUTES] {
    const TRACEPOINT: u64 = 2;
    const TIME_AND_RAW: u64 = 1 << 2 | 1 << 10;
    const TASK_AND_CLOCK: u64 = 1 << 13 | 1 << 25;
    let mut attributes = perf::attributes(TRACEPOINT, tracepoint, 1, TIME_AND_RAW);
    attributes[5] |= TASK_AND_CLOCK;
    attributes[11] = (libc::CLOCK_MONOTONIC as u64) << 32;
    attributes
}

/// Returns the time of the trace's clock in nanoseconds.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
