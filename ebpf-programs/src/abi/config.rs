//! Settings that user space writes for the kernel side.

use super::record::MAX_COPY;
use super::uretprobe::UretprobeOffsets;

/// The value of the map `CONFIG`. User space writes it, the kernel side reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// ABI version of user space, [`super::VERSION`].
    pub version: u32,
    /// Number of bytes waiting in the ring at which the kernel side wakes user space.
    pub wakeup_bytes: u32,
    /// Process id whose samples are dropped and counted as `Counter::Filtered`, usually the profiler's own; 0 for none.
    pub excluded_pid: u32,
    /// Byte offset of the thread pointer (`thread.fsbase`) in the kernel's `task_struct`; 0 if unknown.
    pub fsbase_offset: u32,
    /// Byte offset of the thread id (`pid`) in `task_struct`, read when a process forks; 0 if unknown: then children do
    /// not inherit the published state of their parent.
    pub pid_offset: u32,
    /// Byte offset of the process id (`tgid`) in `task_struct`, read when a process forks; 0 if unknown, with the effect
    /// described at [`pid_offset`](Config::pid_offset).
    pub tgid_offset: u32,
    /// Generation of the tables, never 0. User space increments it after each table that it writes, which invalidates
    /// cached rules.
    pub table_generation: u32,
    /// Number of raw samples with as much of the stack as fits that a process may send in a window of
    /// [`RAW_WINDOW`]; further ones copy less, see [`max_copy`].
    pub full_copies: u32,
    /// Time in nanoseconds after which a walk ends, beside [`FRAME_NANOS`] for each frame. A process whose walks took longer
    /// gets a fraction of it: see [`SlowWalks`].
    pub walk_nanos: u32,
    /// Reserved; must be zero.
    pub reserved: u32,
    /// Offsets that lead to the return addresses that uretprobes have replaced.
    pub uretprobes: UretprobeOffsets,
}

/// State of wake-ups, the value of the map `WAKE`.
///
/// ```text
///   kernel side   record, then: woken = drains, wake-up, unless they are equal
///   user space    drains += 1, then: read all records; at once again if they are equal then
/// ```
///
/// So user space is woken once for each time that it reads, however many CPUs have urgent records, and no record is left waiting.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// Number of times that user space began to read. Written by user space.
    pub drains: u64,
    _apart: [u64; 7],
    /// Value of `drains` at the last wake-up. Written by the kernel side.
    pub woken: u64,
    _behind: [u64; 7],
}

/// Walks of a process that took too long, a value of the map `SLOW_WALKS`. The kernel side alone uses it.
///
/// The first [`FREE_SLOW_WALKS`] in a [`SLOW_WINDOW`] may be ordinary stacks on a machine with slow memory, or while the hypervisor ran
/// another machine. Each further one halves the time limit of the next, down to a sixteenth, until the window ends. A slow walk
/// does not extend it: an ordinary walk can take longer than a sixteenth of the limit.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowWalks {
    /// Time at which the process has its whole limit again, in nanoseconds of `CLOCK_MONOTONIC`.
    pub until: u64,
    /// Process id.
    pub pid: u32,
    /// Number of walks in the window that were too slow, at most [`FREE_SLOW_WALKS`] and [`MAX_HALVINGS`] together.
    pub count: u32,
}

impl SlowWalks {
    /// Returns how often the limit of a process is halved at a time.
    #[inline(always)]
    pub fn halvings(&self, pid: u32, now: u64) -> u32 {
        let is_of_window = self.pid == pid && now < self.until;
        if is_of_window && self.count > FREE_SLOW_WALKS { self.count - FREE_SLOW_WALKS } else { 0 }
    }

    /// Adds a walk that was too slow.
    #[inline(always)]
    pub fn add(&mut self, pid: u32, now: u64) {
        if self.pid != pid || now >= self.until {
            *self = SlowWalks { until: now + SLOW_WINDOW, pid, count: 0 };
        }
        let is_last = self.count >= FREE_SLOW_WALKS + MAX_HALVINGS;
        self.count = if is_last { self.count } else { self.count + 1 };
    }
}

/// Number of entries of the map `SLOW_WALKS`, which is indexed by the process id modulo that.
pub const SLOW_WALKS: u32 = 1024;

/// Time from a slow walk on in which further ones halve the limit, in nanoseconds.
pub const SLOW_WINDOW: u64 = 1_000_000_000;

/// Number of slow walks of a process in a window that do not halve the limit: 4 ms of walks a second at the default limit.
pub const FREE_SLOW_WALKS: u32 = 8;

/// Maximum number of times that the limit is halved.
pub const MAX_HALVINGS: u32 = 4;

/// Time in nanoseconds that each frame adds to the limit of its walk: an ordinary one takes less, so that a deep stack is
/// walked to its end, and one of which each frame takes many steps is not.
pub const FRAME_NANOS: u64 = 256;

/// Number of steps between two looks at the clock; a power of two. A step takes at most a microsecond.
pub const STEPS_PER_LOOK: u32 = 32;

/// Time in which the raw samples of a process are counted, in nanoseconds; an eighth of the number is carried over to the next.
pub const RAW_WINDOW: u64 = 1_000_000_000;

/// Maximum size of the first copy after the full ones, in bytes.
const LARGE_COPY: u64 = 60 << 10;

/// Minimum size of a copy of the stack for which a raw sample is sent: a call or two.
pub const MIN_COPY: u32 = 256;

/// Returns the maximum number of bytes that the raw sample with this number of a process copies, counted from 0 in the window.
///
/// ```text
///   number         0 … full_copies - 1                n
///   bytes          MAX_COPY                           LARGE_COPY × (full_copies / n)²
///   bytes in all   at most MAX_COPY × full_copies     at most LARGE_COPY × full_copies more
/// ```
///
/// Most stacks of a process that has many samples fit into little of that.
#[inline(always)]
pub const fn max_copy(number: u32, full_copies: u32) -> u32 {
    if number < full_copies || number == 0 {
        return MAX_COPY as u32;
    }
    let (number, full_copies) = (number as u64, full_copies as u64);
    (LARGE_COPY * full_copies / number * full_copies / number) as u32
}

/// Raw samples of a process in the current window.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawSent {
    /// Begin of the window, in nanoseconds of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// Process id.
    pub pid: u32,
    /// Number of raw samples.
    pub count: u32,
}

/// The raw samples of four processes, a value of the map `RAW_SENT`. The kernel side alone uses it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawSentSet {
    /// The processes.
    pub ways: [RawSent; RAW_WAYS],
}

impl RawSentSet {
    /// Counts a raw sample of a process. Returns the number of those before it in the window.
    ///
    /// A process without a way takes the one whose window began first, with its count: processes that take the ways of one
    /// another have one limit together.
    #[inline(always)]
    pub fn count(&mut self, pid: u32, now: u64) -> u32 {
        let mut way = 0;
        for other in 0..RAW_WAYS {
            if self.ways[other].pid == pid {
                way = other;
                break;
            }
            if self.ways[other].since < self.ways[way].since {
                way = other;
            }
        }
        let sent = &mut self.ways[way];
        let elapsed = now.wrapping_sub(sent.since);
        if elapsed > RAW_WINDOW {
            sent.since = now;
            // A process that goes on is not granted as many full copies again.
            sent.count = if elapsed < RAW_WINDOW * 8 { sent.count / 8 } else { 0 };
        }
        sent.pid = pid;
        sent.count += 1;
        sent.count - 1
    }
}

/// Number of processes of a set.
pub const RAW_WAYS: usize = 4;

/// Bytes of the ring for each raw sample that copies as much as fits.
pub const RING_PER_COPY: u32 = 64 << 10;

/// Number of sets of the map `RAW_SENT`, which is indexed by the process id modulo that.
pub const RAW_SENT: u32 = 1024;

const _: () = assert!(size_of::<Config>() == 80);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_set_have_limits_of_their_own() {
        let mut set = RawSentSet::default();
        let start = RAW_WINDOW * 100;
        let mut count = |number: u32| set.count(number % 4 * RAW_SENT + 7, start + u64::from(number));
        assert_eq!((0..4000).map(&mut count).max(), Some(999));
        // The next window.
        let next = start + RAW_WINDOW + 1;
        assert_eq!((set.count(7, next), set.count(7, next + 1)), (125, 126));
        assert_eq!(set.count(7, next + RAW_WINDOW * 20), 0);
    }

    #[test]
    fn processes_that_displace_one_another_get_no_more_full_copies() {
        for processes in [2, 5, 8, 100, 1000] {
            let (mut set, mut bytes) = (RawSentSet::default(), 0);
            for number in 0..100_000_u32 {
                let before = set.count(number % processes + 1, RAW_WINDOW * 9 + u64::from(number));
                bytes += u64::from(max_copy(before, 64));
            }
            let most = RAW_WAYS as u64 * 64 * (MAX_COPY as u64 + LARGE_COPY);
            assert!(bytes < most + 100_000 * u64::from(MIN_COPY), "{processes}: {bytes} bytes");
        }
    }

    #[test]
    fn copies_shrink_so_that_a_flood_stays_small() {
        let copies = || (0..100_000).map(|number| max_copy(number, 64));
        assert!(copies().is_sorted_by(|one, next| one >= next));
        assert_eq!(copies().take_while(|&bytes| bytes == MAX_COPY as u32).count(), 64);
        let sent: u64 = copies().take_while(|&bytes| bytes >= MIN_COPY).map(u64::from).sum();
        assert!(sent < 64 * (MAX_COPY as u64 + LARGE_COPY), "{sent} bytes");
        assert_eq!(
            (max_copy(1, 0), max_copy(u32::MAX, 1), max_copy(u32::MAX, u32::MAX)),
            (0, 0, LARGE_COPY as u32)
        );
    }

    #[test]
    fn limit_is_halved_until_the_window_ends() {
        let (mut slow, start) = (SlowWalks::default(), 5 * SLOW_WINDOW);
        let halvings = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13].map(|at| {
            slow.add(7, start + at);
            slow.halvings(7, start + at)
        });
        assert_eq!(halvings, [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 4, 4]);
        assert_eq!(slow.halvings(8, start), 0, "another process with the same entry");
        // An ordinary walk that takes longer than a sixteenth of the limit does not extend it.
        slow.add(7, start + SLOW_WINDOW - 1);
        assert_eq!(slow.halvings(7, start + SLOW_WINDOW - 1), MAX_HALVINGS);
        assert_eq!(slow.halvings(7, start + SLOW_WINDOW), 0);
        slow.add(7, start + SLOW_WINDOW);
        assert_eq!(slow.halvings(7, start + SLOW_WINDOW), 0, "the first of a window");
    }
}
