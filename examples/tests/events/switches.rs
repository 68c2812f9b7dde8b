//! A trace of all switches of the machine from thread to thread, in the kernel's buffers for perf events.
//!
//! The times are read at the tracepoint, from the clock that the profiler's programs read. The statistics of the scheduler
//! count from another clock, which it reads at other moments: under load they differ by milliseconds.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

use crate::tracefs::Tracepoint;

/// A running trace.
pub(crate) struct Switches {
    rings: Vec<Ring>,
    previous_tid: usize,
    next_tid: usize,
}

/// The switches of one CPU.
struct Ring {
    event: OwnedFd,
    /// A page of the kernel's state, then [`BYTES`] of records.
    memory: *mut u8,
}

/// The switches of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Time of its creation in nanoseconds; 0 if it was created before the trace.
    pub(crate) created: u64,
    /// Nanoseconds from its creation, or the switch that took it off its CPU, to the switch that brought it back; each time.
    pub(crate) waits: Vec<u64>,
    /// Number of them that ended after the profiler began to stop: a thread outlives its last words.
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

const PAGE: usize = 4096;

/// Positions in the page of the kernel's state.
const HEAD: usize = 1024;

/// Types of records.
const FORK: u32 = 7;
const SAMPLE: u32 = 9;

impl Switches {
    /// Starts the trace. Needs tracefs.
    pub(crate) fn trace() -> io::Result<Switches> {
        let tracepoint = Tracepoint::read("sched/sched_switch")?;
        // SAFETY: the call has no conditions.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        let rings = (0..cpus as i32).map(|cpu| Ring::open(tracepoint.id, cpu)).collect::<io::Result<_>>()?;
        let offset = |field| tracepoint.offset(field);
        Ok(Switches { rings, previous_tid: offset("prev_pid"), next_tid: offset("next_pid") })
    }

    /// Ends the trace. Returns the waits of each thread by its number. The profiler began to stop at `stop` nanoseconds.
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
        let (records, mut changes) = (ring.records(), Vec::new());
        let word = |at: usize| u32::from_le_bytes(records[at..at + 4].try_into().unwrap());
        let time = |at: usize| u64::from_le_bytes(records[at..at + 8].try_into().unwrap());
        let mut at = 0;
        while at < records.len() {
            let (kind, length) = (word(at), word(at + 4) >> 16);
            match kind {
                // Its length stands between the time and the tracepoint's bytes.
                SAMPLE => {
                    let fields = at + 20;
                    let (from, to) = (word(fields + self.previous_tid), word(fields + self.next_tid));
                    changes.push(Change { time: time(at + 8), from: Some(from), to });
                }
                // Process and thread, each with its parent's number behind it.
                FORK => changes.push(Change { time: time(at + 24), from: None, to: word(at + 16) }),
                _ => {}
            }
            at += length as usize;
        }
        changes
    }
}

/// Returns the time of the trace's clock in nanoseconds.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Ring {
    fn open(tracepoint: u64, cpu: i32) -> io::Result<Ring> {
        const TRACEPOINT: u64 = 2;
        const TIME_AND_RAW: u64 = 1 << 2 | 1 << 10;
        const TASK_WATERMARK_CLOCK: u64 = 1 << 13 | 1 << 14 | 1 << 25;
        // `struct perf_event_attr`: type and size, event, period, records, -, flags, and the number of bytes until someone is
        // woken, so that no switch costs an interrupt.
        let mut attributes = [0; 14];
        attributes[0] = TRACEPOINT | (size_of_val(&attributes) as u64) << 32;
        attributes[1..=3].copy_from_slice(&[tracepoint, 1, TIME_AND_RAW]);
        attributes[5..=6].copy_from_slice(&[TASK_WATERMARK_CLOCK, BYTES as u64]);
        attributes[11] = (libc::CLOCK_MONOTONIC as u64) << 32;
        // SAFETY: the attributes have the size that they state.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), -1, cpu, -1, 8) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor.
        let event = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, event.as_raw_fd());
        // SAFETY: the kernel chooses the address.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), PAGE + BYTES, access, libc::MAP_SHARED, fd, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { event, memory: memory.cast() })
    }

    /// Stops this CPU's trace and returns its records.
    fn records(&self) -> &[u8] {
        const DISABLE: libc::c_ulong = 0x2401;
        // SAFETY: the request takes no argument.
        assert_eq!(unsafe { libc::ioctl(self.event.as_raw_fd(), DISABLE as _, 0) }, 0);
        // SAFETY: the position is in the mapping, and aligned.
        let head = unsafe { self.memory.add(HEAD).cast::<u64>().read_volatile() };
        fence(Ordering::Acquire);
        assert!(head < BYTES as u64 - 4096, "the trace has {head} bytes and is full");
        // SAFETY: so many bytes are written, and no more are, since the event is disabled.
        unsafe { std::slice::from_raw_parts(self.memory.add(PAGE), head as usize) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's.
        unsafe { libc::munmap(self.memory.cast(), PAGE + BYTES) };
    }
}
