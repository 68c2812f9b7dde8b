//! Sizes that grow with the machine, chosen at the start.
//!
//! | size | small machines | grows with | largest |
//! | --- | --- | --- | --- |
//! | processes that the kernel side knows | 16,384 | 256 for each CPU, 1 for each 4 MiB of memory | 65,536 |
//! | processes that are selected, and their descendants | 16,384 | the same, and 128 for each possible CPU | |
//! | memory in use: calls of the allocator that have not returned | 16,384 | 128 for each possible CPU | |
//! | spans | 65,536 | 128 for each possible CPU | |
//! | ring buffer | 4 MiB | 64 KiB for each CPU | 32 MiB |
//! | processes of [`Limits`] | 32,768 | twice those that the kernel side knows | 131,072 |
//! | executable mappings of [`Limits`] | 262,144 | 16 for each process that the kernel side knows | 1,048,576 |
//!
//! Numbers of processes and bytes of the ring are rounded up to a power of two. With a [`Budget`](crate::live::Budget) of memory, the
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
