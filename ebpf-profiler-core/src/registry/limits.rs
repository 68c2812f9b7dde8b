//! The bounds of what other programs can make the profiler keep.

/// Upper bounds of the state that is kept about processes, and of their stacks in a profile.
///
/// Samples of a process that exceeds its share end with
/// [`Stop::TooManyMappings`](crate::trace::Stop::TooManyMappings) where a mapping is missing. Other
/// processes are not affected.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::Limits;
///
/// let mut limits = Limits::default();
/// limits.mappings = 1_000;
/// assert_eq!(limits.regions, 262_144);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Executable mappings of one process; 16,384 by default, which is also the maximum.
    pub mappings: usize,
    /// Executable mappings of all processes; 262,144 by default. Forked processes share those in
    /// which they do not differ.
    ///
    /// Beyond it, processes make room in this order: never sampled, then without a sample for 10 s
    /// (both are read again at their next sample), then the largest with more than a 64th of
    /// the limit, then the one without a sample for the longest time (both are left out for 10
    /// s).
    pub regions: usize,
    /// Processes; 32,768 by default. Beyond it, those that were not sampled for the longest time
    /// are read again when they are.
    pub processes: usize,
    /// Files that one process has mapped as code; 1,024 by default. The code of further files is
    /// walked by frame pointers and has no names.
    pub files: usize,
    /// Files that all processes have mapped as code; 16,384 by default.
    pub modules: usize,
    /// Bytes of the paths of these files; 4 MiB by default. Beyond it, paths of further files are
    /// cut to their last 64 bytes.
    pub name_bytes: usize,
    /// Bytes of the different stacks of one process in a profile, on a machine of one CPU; 4 MiB by
    /// default. Beyond it, samples with further stacks keep their kernel frames and the
    /// innermost function, and end with
    /// [`Stop::TooManyStacks`](crate::trace::Stop::TooManyStacks). A flame graph of stacks that
    /// never repeat takes 17 times as much.
    ///
    /// More CPUs bring more samples, but mostly of the same stacks. The limit grows with the square
    /// root of twice their number, up to 512 CPUs:
    ///
    /// | CPUs | 1 | 2 | 8 | 32 | 128 | 256 | 512 and more |
    /// | --- | --- | --- | --- | --- | --- | --- | --- |
    /// | factor | 1 | 2 | 4 | 8 | 16 | 22.6 | 32 |
    /// | of one process, MiB | 4 | 8 | 16 | 32 | 64 | 90 | 128 |
    /// | of all processes, MiB | 8 | 16 | 32 | 64 | 128 | 181 | 256 |
    pub process_stack_bytes: usize,
    /// Bytes of the different stacks of all processes in a profile, on a machine of one CPU; 8 MiB
    /// by default. Grows with the CPUs as `process_stack_bytes` does.
    pub stack_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            mappings: MAX_MAPPINGS,
            regions: 1 << 18,
            processes: 1 << 15,
            files: 1024,
            modules: 1 << 14,
            name_bytes: 4 << 20,
            process_stack_bytes: 4 << 20,
            stack_bytes: 8 << 20,
        }
    }
}

/// CPUs at most that make the memory of stacks larger.
const MAX_CPUS: usize = 512;

/// Returns the bytes of different stacks on a machine of `cpus` CPUs, if `bytes` is the limit on
/// one CPU.
pub(crate) fn stacks_on(cpus: usize, bytes: usize) -> usize {
    let cpus = cpus.clamp(1, MAX_CPUS) as u128;
    let factor_squared = (2 * cpus).min(cpus * cpus);
    let bytes = (bytes as u128).saturating_pow(2).saturating_mul(factor_squared).isqrt();
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Mappings at most that the kernel side searches in one process.
pub(super) const MAX_MAPPINGS: usize = 1 << 14;

/// The shortest and the longest time between two reads of the mappings of a process, in
/// nanoseconds.
const READ_DELAY: [u64; 2] = [50_000_000, 3_200_000_000];

/// Time without a read after which the shortest delay applies again, in nanoseconds.
const READ_RESET: u64 = 10_000_000_000;

/// Time until mappings are read again that were too long, in nanoseconds.
const TOO_LONG: u64 = 60_000_000_000;

/// Limits how often the mappings of a process are read.
#[derive(Debug, Default)]
pub(super) struct ReadLimit {
    next: u64,
    delay: u64,
}

impl ReadLimit {
    /// Returns `true` if a read is allowed at `now`. The delay until the next doubles with every
    /// read.
    pub(super) fn allow(&mut self, now: u64) -> bool {
        if now < self.next {
            return false;
        }
        let [least, most] = READ_DELAY;
        let is_rare = now.saturating_sub(self.next) > READ_RESET;
        self.delay = if is_rare || self.delay == 0 { least } else { (self.delay * 2).min(most) };
        self.next = now.saturating_add(self.delay);
        true
    }

    /// Allows no further read for a minute: the last one was too long.
    pub(super) fn postpone(&mut self, now: u64) {
        self.next = now.saturating_add(TOO_LONG);
    }
}

/// Time until a table that failed to build is tried again, in nanoseconds. Doubles with each failure.
const RETRY_DELAY: u64 = 1_000_000_000;

/// Maximum number of times that it doubles.
const MAX_DOUBLINGS: u32 = 6;

/// Returns the time until a file is tried again after `failures` failures, in nanoseconds.
pub(super) fn retry_after(failures: u32) -> u64 {
    RETRY_DELAY << failures.min(MAX_DOUBLINGS)
}

/// Bytes of mappings a second that are published for large processes, and the same without
/// interruption.
const LARGE_BYTES: u64 = 16 << 20;

/// Mappings of a process that is never kept waiting for others.
const SMALL: usize = 1024;

/// Limits the bytes that are published for processes with many mappings.
#[derive(Debug, Default)]
pub(super) struct PublishLimit {
    /// Bytes published beyond the rate, as of `since`.
    debt: u64,
    since: u64,
}

impl PublishLimit {
    /// Returns `true` if `count` mappings may be published at `now`, and accounts for them.
    pub(super) fn allow(&mut self, count: usize, now: u64) -> bool {
        const SECOND: u64 = 1_000_000_000;
        let elapsed = now.saturating_sub(self.since).min(SECOND);
        self.debt = self.debt.saturating_sub(LARGE_BYTES / 1_000_000 * (elapsed / 1_000));
        self.since = self.since.max(now);
        if count > SMALL {
            if self.debt > LARGE_BYTES {
                return false;
            }
            self.debt += count as u64 * 32;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn memory_of_stacks_grows_with_the_square_root_of_the_cpus() {
        let mebibytes = |cpus| stacks_on(cpus, Limits::default().stack_bytes) as f64 / f64::from(1 << 20);
        assert_eq!(
            [0, 1, 2, 8, 32, 128, 512, 1 << 20].map(mebibytes),
            [8., 8., 16., 32., 64., 128., 256., 256.]
        );
        assert!((180.0..182.0).contains(&mebibytes(256)), "{}", mebibytes(256));
        assert!((3..600).all(|cpus| mebibytes(cpus - 1) <= mebibytes(cpus)));
        assert_eq!(stacks_on(512, usize::MAX), usize::MAX);
    }

    #[test]
    fn reads_become_rarer_until_they_are_no_longer_needed() {
        let mut limit = ReadLimit::default();
        let mut times = Vec::new();
        for now in 0..20_000 {
            if limit.allow(now * MS) {
                times.push(now);
            }
        }
        assert_eq!(times[..6], [0, 50, 150, 350, 750, 1550]);
        assert_eq!(times.len(), 12);
        assert!(limit.allow(40_000 * MS) && !limit.allow(40_049 * MS) && limit.allow(40_050 * MS));
    }

    #[test]
    fn small_processes_do_not_wait_for_large_ones() {
        let mut limit = PublishLimit::default();
        let large = (0..1000).filter(|_| limit.allow(MAX_MAPPINGS, 0)).count();
        assert_eq!(large, 33, "16 MiB and one process");
        assert!(limit.allow(SMALL, 0));
        assert!(limit.allow(MAX_MAPPINGS, 1_000 * MS));
    }
}
