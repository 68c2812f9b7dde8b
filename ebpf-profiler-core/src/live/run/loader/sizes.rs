//! Sizes that grow with the machine, chosen at the start.
//!
//! | size | small machines | grows with | largest |
//! | --- | --- | --- | --- |
//! | processes that the kernel side knows | 16,384 | 256 for each CPU, 1 for each 4 MiB of memory | 65,536 |
//! | processes that are selected, and their descendants | 16,384 | the same, and 128 for each possible CPU | |
//! | memory in use: calls of the allocator that have not returned | 16,384 | 128 for each possible CPU | |
//! | spans | 65,536 | 128 for each possible CPU | |
//! | working memory of samples, 61 KiB each | 1 | 1 for each CPU | |
//! | the same, for events that interrupt one another | 4 | 3 for each CPU | 128 |
//! | buffers for raw records, 136 KiB each | 1 | 1 for each CPU | 32 |
//! | ring buffer | 4 MiB | 64 KiB for each CPU | 32 MiB |
//! | processes of [`Limits`] | 32,768 | twice those that the kernel side knows | 131,072 |
//! | executable mappings of [`Limits`] | 262,144 | 16 for each process that the kernel side knows | 1,048,576 |
//!
//! CPUs are counted up to the highest one that is online at the start. All numbers are rounded up to a power of two, except that of the
//! CPUs' own working memory. Before Linux 5.17 CPUs cannot share memory: each has two pieces of working memory and one buffer.
//! With a [`Budget`](crate::live::Budget) of memory, the
//! machine's memory does not count, and the limits are the usual ones, reduced to what fits.

use std::fs;

use crate::live::machine::cpus;
use crate::registry::Limits;

/// The facts on which sizes depend.
#[derive(Clone, Copy, Debug)]
pub(in crate::live) struct Machine {
    /// CPUs that are online.
    pub(in crate::live) cpus: u32,
    /// Memory in bytes; 0 if unknown.
    pub(in crate::live) memory: u64,
}

/// Sizes for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::live) struct Scaled {
    /// Entries of the map of published processes.
    pub(in crate::live) processes: u32,
    /// Bytes of the ring.
    pub(in crate::live) ring: u32,
}

impl Machine {
    /// Returns the running machine.
    pub(in crate::live) fn this() -> Machine {
        let cpus = cpus::online().map_or(1, |cpus| cpus.len() as u32);
        let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
        Machine { cpus, memory: memory.unwrap_or(0) }
    }

    /// Returns the sizes for it.
    pub(in crate::live) fn sizes(self) -> Scaled {
        let by_cpus = u64::from(self.cpus) * 256;
        let processes = by_cpus.max(self.memory >> 22).clamp(16 << 10, 64 << 10).next_power_of_two();
        let ring = (u64::from(self.cpus) * (64 << 10)).clamp(4 << 20, 32 << 20).next_power_of_two();
        Scaled { processes: processes as u32, ring: ring as u32 }
    }
}

impl Scaled {
    /// Returns the default limits.
    pub(in crate::live) fn limits(self) -> Limits {
        let processes = self.processes as usize;
        let usual = Limits::default();
        Limits {
            processes: usual.processes.max(processes * 2),
            regions: usual.regions.max(processes * 16),
            ..usual
        }
    }
}

/// Numbers of slots of working memory, and of buffers for raw records. The kernel side's module `slot` shares them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    /// CPUs that have a slot of their own.
    pub(super) cpus: u32,
    /// Slots for all CPUs, a power of two.
    pub(super) shared: u32,
    /// Buffers for raw records, a power of two.
    pub(super) raw: u32,
}

impl Slots {
    /// Returns the numbers for the first `cpus` of `possible` CPUs, with one trigger or several, and for a kernel side that shares
    /// nothing between CPUs if `is_older`.
    pub(super) fn new(cpus: u32, possible: u32, is_nested: bool, is_older: bool) -> Slots {
        let of_cpus = cpus.next_power_of_two();
        if is_older {
            return Slots { cpus, shared: if is_nested { of_cpus } else { 1 }, raw: of_cpus };
        }
        let least = if is_nested || possible > cpus { 4 } else { 1 };
        let wanted = if is_nested { cpus.saturating_mul(3).min(MAX_SHARED).next_power_of_two() } else { 1 };
        Slots { cpus, shared: wanted.max(least), raw: of_cpus.clamp(least, MAX_RAW) }
    }

    /// Returns the number of slots.
    pub(super) fn count(self) -> u32 {
        self.cpus + self.shared
    }

    /// Returns the number of rows of counters: one per slot, and one per possible CPU.
    pub(super) fn rows(self, possible: u32) -> u32 {
        self.count() + possible
    }

    /// Returns the number of entries that hold all flags.
    pub(super) fn claims(self, possible: u32) -> u32 {
        self.count().max(self.raw).max(possible)
    }
}

/// Maximum number of slots for all CPUs: as many events at once interrupt others, or have been preempted.
const MAX_SHARED: u32 = 128;

/// Maximum number of buffers for raw records. One is in use for some 10 µs.
const MAX_RAW: u32 = 32;

/// Returns the number of entries of a map that drops the least recently used ones, for `entries` in use: the kernel keeps up to 128
/// free ones on each possible CPU.
pub(super) fn with_spare(entries: u32, possible: u32) -> u32 {
    entries.saturating_add(possible.saturating_mul(128))
}

/// Parses the total of `/proc/meminfo`, in bytes.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn sizes_grow_with_the_machine_within_bounds() {
        let cases: [((u32, u64), (u32, u32)); 10] = [
            ((1, 0), (16, 4)),
            ((1, GIB / 2), (16, 4)),
            ((2, 4 * GIB), (16, 4)),
            ((16, 64 * GIB), (16, 4)),
            ((4, 128 * GIB), (32, 4)),
            ((64, 256 * GIB), (64, 4)),
            ((96, 64 * GIB), (32, 8)),
            ((256, 2048 * GIB), (64, 16)),
            ((512, 64 * GIB), (64, 32)),
            ((u32::MAX, u64::MAX), (64, 32)),
        ];
        for ((cpus, memory), (processes, ring)) in cases {
            let sizes = Machine { cpus, memory }.sizes();
            let expected = Scaled { processes: processes << 10, ring: ring << 20 };
            assert_eq!(sizes, expected, "{cpus} CPUs, {memory} bytes");
            let limits = sizes.limits();
            assert!(limits.processes >= sizes.processes as usize * 2 && limits.processes <= 1 << 17);
            assert!(limits.regions >= sizes.processes as usize * 16 && limits.regions <= 1 << 20);
        }
        assert_eq!(Machine { cpus: 2, memory: GIB }.sizes().limits(), Limits::default());
    }

    #[test]
    fn working_memory_grows_with_the_cpus_that_are_online() {
        let slots = |cpus, possible, is_nested, is_older| {
            let Slots { cpus, shared, raw } = Slots::new(cpus, possible, is_nested, is_older);
            [cpus, shared, raw]
        };
        assert_eq!([slots(1, 1, false, false), slots(2, 2, false, false)], [[1, 1, 1], [2, 1, 2]]);
        // A CPU that comes online later finds some.
        assert_eq!(slots(2, 512, false, false), [2, 4, 4]);
        assert_eq!([slots(1, 1, true, false), slots(4, 512, true, false)], [[1, 4, 4], [4, 16, 4]]);
        assert_eq!(
            [slots(256, 256, false, false), slots(256, 512, true, false)],
            [[256, 1, 32], [256, 128, 32]]
        );
        assert_eq!([slots(12, 12, false, true), slots(12, 512, true, true)], [[12, 1, 16], [12, 16, 16]]);
        let slots = Slots::new(4, 512, true, false);
        assert_eq!((slots.count(), slots.rows(512), slots.claims(512), slots.claims(4)), (20, 532, 512, 20));
        // As much as the kernel side takes at most for 256 CPUs.
        let slots = Slots::new(256, 512, true, false);
        assert!(slots.count() * 62 + slots.raw * 136 <= 32 << 10);
    }

    #[test]
    fn spare_entries_of_all_cpus_come_on_top() {
        assert_eq!((with_spare(1 << 14, 2), with_spare(1 << 14, 256)), (16_640, 49_152));
        assert_eq!(with_spare(1, u32::MAX), u32::MAX);
    }

    #[test]
    fn memory_of_the_machine_is_parsed() {
        assert_eq!(total("MemTotal:       24671048 kB\nMemFree: 1 kB\n"), Some(24_671_048 << 10));
        assert_eq!([total(""), total("MemTotal: many kB")], [None, None]);
    }
}
