//! Clocks: of the kernel's events, of the day, and of CPU time.

#![expect(unsafe_code, reason = "a system call that the standard library does not have")]

use crate::pipeline::Clock;

/// Number of attempts to read both clocks.
const TRIES: u32 = 5;

/// Returns the current offset from the kernel's clock to the time of day.
///
/// The thread may be preempted between reading the two clocks, so the shortest of several attempts
/// counts.
pub(in crate::live) fn offset() -> Clock {
    let attempt = |_| {
        let before = monotonic();
        let day = read(libc::CLOCK_REALTIME);
        let length = monotonic() - before;
        (length, day.wrapping_sub(before + length / 2))
    };
    let (_, offset) = (0..TRIES).map(attempt).min().unwrap_or_default();
    Clock { offset }
}

/// Returns the time of a clock in nanoseconds; 0 if there is no such clock.
pub(in crate::live) fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the time of the kernel's events, in nanoseconds.
pub(in crate::live) fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns the clock of the CPU time of a thread of this program. It shows 0 once the thread has ended.
pub(in crate::live) fn of_thread(tid: u32) -> libc::clockid_t {
    cpu_time(tid, 4)
}

/// Returns the clock of the CPU time of all threads of a process. It shows 0 once the process has ended.
pub(in crate::live) fn of_process(pid: u32) -> libc::clockid_t {
    cpu_time(pid, 0)
}

/// Returns a clock of CPU time in the kernel's encoding: the inverted bits of an id, then 4 for a thread
/// and 2 for the precision of the scheduler.
fn cpu_time(id: u32, kind: libc::clockid_t) -> libc::clockid_t {
    !(id as libc::clockid_t) << 3 | kind | 2
}
