//! Budget of a profiler: the CPU time and memory that it may cost.
//!
//! ```text
//!   kernel side   COSTS: samples, skipped events, time of the programs ─┐ every 250 ms
//!   threads       CPU time of drain, pipeline, names and sinks ─────────┴─► Governor ──► PERIODS ──► kernel side
//! ```
//!
//! The kernel side measures itself, with two reads of its clock a sample. The kernel's own
//! statistics of programs (`kernel.bpf_stats_enabled`) would add the same to every run of all
//! programs of the machine, and don't divide programs by kinds of samples.

mod governor;

use ebpf_programs::abi::arena::BLOCK;

use crate::live::error::OptionError;
use crate::registry::{Limits, stacks_on};
pub(super) use governor::{Governor, Measured};

/// CPU time, as a share of all CPUs, and memory that a profiler may cost: for
/// [`Builder::budget`](crate::live::Builder::budget).
///
/// # CPU time
///
/// The profiler measures its own cost: the time of its programs in the kernel, and the CPU time of
/// its threads. When samples cost more than the budget, events are sampled less often, the kinds of
/// samples with the highest total cost first. Once the cost is below half of the budget, they are
/// sampled more often again. A kind then has a *period* T: an event with a value v below T
/// (nanoseconds, bytes or 1) is sampled with probability v / T and counts T; one of T or more is
/// always sampled and counts v. Totals stay right on average, and the values of a profile need no
/// correction. [`Profile::sampling_periods`](crate::profile::Profile::sampling_periods) has the
/// periods.
///
/// Events that are not sampled cost time, too: less than 0.1 µs for a tracepoint, more than 1 µs
/// for a uprobe. Most of that is the uprobe's trap, which the kernel does not measure and no budget
/// contains. [`BudgetStats::is_exceeded`](crate::live::BudgetStats::is_exceeded) is set when the measured
/// cost of these events alone exceeds the budget. The cost of the start and of symbolization does
/// not depend on the number of samples and changes no period.
///
/// # Memory
///
/// The space for unwind tables, the ring buffer and the [`Limits`] are reduced to what fits, down
/// to a minimum. Of what the code, the CPUs and a profile leave, a half is for unwind tables, an
/// eighth for the ring buffer, an eighth for the different stacks of a profile, and the rest for
/// processes and files.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::live::Budget;
///
/// let budget: Budget = "0.5%".parse()?;
/// assert_eq!(budget, Budget::cpu(0.005));
/// assert_eq!("1%,64MiB".parse(), Ok(Budget::cpu(0.01).memory(64 << 20)));
/// # Ok::<(), ebpf_profiler_core::live::OptionError>(())
/// ```
#[doc(alias = "overhead")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    pub(super) cpu: f64,
    pub(super) memory: Option<u64>,
}

/// Memory in bytes that a profiler needs in any case: its code, its kernel maps, and a profile.
const BASE: u64 = 20 << 20;

/// Further such memory for each CPU.
const PER_CPU: u64 = 1 << 20;

/// Memory in bytes at which the default limits of processes and files apply.
const DEFAULT_LIMITS: u64 = 128 << 20;

impl Budget {
    /// Returns a budget of a share of the CPU time of all CPUs, above 0 and up to 1.
    pub fn cpu(share: f64) -> Budget {
        Budget { cpu: share, memory: None }
    }

    /// Adds a budget of memory in bytes: of the program's resident memory and of the kernel maps.
    #[must_use = "returns the changed budget"]
    pub fn memory(self, bytes: u64) -> Budget {
        Budget { memory: Some(bytes), ..self }
    }

    /// Validates the values.
    pub(super) fn check(&self, cpus: u32) -> Result<(), OptionError> {
        // Not a number is in no range.
        if !(self.cpu > 0.0 && self.cpu <= 1.0) {
            return Err(OptionError::CpuBudget { share: self.cpu });
        }
        let least = base(cpus) + (8 << 20);
        match self.memory {
            Some(bytes) if bytes < least => Err(OptionError::MemoryBudget { bytes, least }),
            _ => Ok(()),
        }
    }

    /// Reduces sizes in bytes of tables and ring, and limits, so that they fit. `cpus` has the
    /// numbers of the CPUs.
    pub(super) fn reduce(&self, cpus: &[u32], tables: &mut u64, ring: &mut u32, limits: &mut Limits) {
        let Some(memory) = self.memory else { return };
        let left = memory.saturating_sub(base(cpus.len() as u32));
        *tables = (*tables).min(left / 2).max(BLOCK as u64);
        let fitting = (left / 8).clamp(64 << 10, 1 << 30).ilog2();
        *ring = (*ring).min(1 << fitting);
        let scale = |limit: &mut usize| {
            let scaled = *limit as u128 * u128::from(left.min(DEFAULT_LIMITS)) / u128::from(DEFAULT_LIMITS);
            *limit = (scaled as usize).max(1);
        };
        scale(&mut limits.regions);
        scale(&mut limits.processes);
        scale(&mut limits.modules);
        scale(&mut limits.name_bytes);
        let span = cpus.iter().max().map_or(1, |&highest| highest as usize + 1);
        let bound = |limit: &mut usize, most: u64| {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let bytes = stacks_on(span, *limit);
            if bytes > most {
                *limit = (*limit as u128 * most as u128 / bytes as u128) as usize;
            }
        };
        bound(&mut limits.process_stack_bytes, left / 16);
        bound(&mut limits.stack_bytes, left / 8);
    }
}

/// Returns the memory that is needed in any case.
fn base(cpus: u32) -> u64 {
    BASE + PER_CPU * u64::from(cpus)
}

impl std::str::FromStr for Budget {
    type Err = OptionError;

    /// Parses a share of all CPUs in percent, optionally followed by a comma and memory: `0.5%`,
    /// `0.5%,64MiB`.
    fn from_str(text: &str) -> Result<Budget, OptionError> {
        let invalid = || OptionError::BudgetText { text: text.to_owned() };
        let (share, memory) = text.split_once(',').map_or((text, None), |(share, rest)| (share, Some(rest)));
        let percent: f64 =
            share.trim().strip_suffix('%').and_then(|it| it.parse().ok()).ok_or_else(invalid)?;
        let budget = Budget::cpu(percent / 100.0);
        let Some(memory) = memory else { return Ok(budget) };
        let mebibytes: Option<u64> = memory.trim().strip_suffix("MiB").and_then(|it| it.trim().parse().ok());
        let bytes = mebibytes.and_then(|mebibytes| mebibytes.checked_mul(1 << 20));
        Ok(budget.memory(bytes.ok_or_else(invalid)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_their_range_are_rejected() {
        for share in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            let error = Budget::cpu(share).check(2).unwrap_err();
            assert!(error.to_string().contains("above 0 % and up to 100 %"), "{error}");
        }
        let error = Budget::cpu(0.01).memory(16 << 20).check(2).unwrap_err();
        assert!(error.to_string().contains("at least 30 MiB"), "{error}");
        assert!(Budget::cpu(0.01).memory(30 << 20).check(2).is_ok());
        for text in ["", "1", "%", "1%,", "1%,64", "1%,-1MiB", "x%"] {
            assert!(text.parse::<Budget>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_fit_into_the_memory() {
        let (mut tables, mut ring, mut limits) = (1 << 30, 4 << 20, Limits::default());
        Budget::cpu(0.01).reduce(&[0, 1], &mut tables, &mut ring, &mut limits);
        assert_eq!((tables, ring, limits.clone()), (1 << 30, 4 << 20, Limits::default()));
        Budget::cpu(0.01).memory(64 << 20).reduce(&[0, 1], &mut tables, &mut ring, &mut limits);
        assert_eq!((tables, ring), (21 << 20, 4 << 20));
        assert_eq!((limits.processes, limits.mappings), ((1 << 15) * 42 / 128, Limits::default().mappings));
        assert_eq!((limits.process_stack_bytes, limits.stack_bytes), ((21 << 20) / 16, (21 << 20) / 8));
        Budget::cpu(0.01).memory(30 << 20).reduce(&[0, 1], &mut tables, &mut ring, &mut limits);
        assert_eq!((tables, ring), (4 << 20, 1 << 20));
    }

    #[test]
    fn memory_is_kept_on_all_machines() {
        for count in [1, 2, 3, 8, 64, 256, 1024] {
            let least = base(count) + (8 << 20);
            for cpus in [(0..count).collect::<Vec<_>>(), (4096..4096 + count).collect()] {
                for memory in [least, least * 2, 300 << 20, 1 << 30, 1 << 40] {
                    let memory = memory.max(least);
                    let (mut tables, mut ring, mut limits) = (1 << 30, 4 << 20, Limits::default());
                    Budget::cpu(0.01).memory(memory).reduce(&cpus, &mut tables, &mut ring, &mut limits);
                    let span = cpus.last().map_or(0, |cpu| *cpu as usize + 1);
                    let stacks = stacks_on(span, limits.stack_bytes) as u64;
                    let sum = base(count) + tables + u64::from(ring) + stacks;
                    assert!(sum <= memory - (memory - base(count)) / 4, "{count} CPUs: {sum} of {memory}");
                    assert!(stacks > 0 && stacks_on(span, limits.process_stack_bytes) > 0);
                }
            }
        }
    }
}
