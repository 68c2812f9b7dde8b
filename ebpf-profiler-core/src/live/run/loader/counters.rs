//! Counters and costs that the kernel side writes into shared memory.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ebpf_programs::abi::budget::{COST_WORDS, MAX_KINDS};
use ebpf_programs::abi::reason::Counter;

use crate::live::error::StartError;
use crate::live::kernel::bpf::Map;
use crate::live::kernel::mmap::Mmap;
use crate::live::machine::capability::BPF;
use crate::live::trigger::Trigger;
use crate::sample::KindCost;

/// Counters of the kernel side in shared memory, one row for each slot of working memory, then one for each CPU.
pub(in crate::live) struct Counters {
    memory: Mmap,
    rows: usize,
}

impl Counters {
    pub(super) fn new(map: &Map, rows: u32) -> Result<Counters, StartError> {
        let rows = rows as usize;
        let len = (rows * Counter::WORDS * 8).next_multiple_of(4096);
        let memory = Mmap::new(map.as_fd(), 0, len, false)
            .map_err(|error| StartError::system("map the counters", &[BPF], error))?;
        Ok(Counters { memory, rows })
    }

    /// Returns the sums over all rows.
    pub(in crate::live) fn sums(&self) -> Vec<u64> {
        let word = |row: usize, counter| {
            self.memory.word((row * Counter::WORDS + counter) * 8).load(Ordering::Relaxed)
        };
        (0..Counter::ALL.len()).map(|counter| (0..self.rows).map(|row| word(row, counter)).sum()).collect()
    }
}

/// Periods and costs of the kinds of samples.
pub(in crate::live) struct KindCosts {
    periods: Map,
    costs: Mmap,
    cpus: usize,
    kinds: usize,
}

impl KindCosts {
    pub(super) fn new(
        costs: &Map,
        periods: Map,
        triggers: &[Trigger],
        cpus: u32,
    ) -> Result<KindCosts, StartError> {
        let len = (cpus as usize * MAX_KINDS * COST_WORDS * 8).next_multiple_of(4096);
        let costs = Mmap::new(costs.as_fd(), 0, len, false)
            .map_err(|error| StartError::system("map the costs of samples", &[BPF], error))?;
        let kinds = triggers.iter().map(|trigger| trigger.kinds(Duration::ZERO).len()).sum::<usize>();
        Ok(KindCosts { periods, costs, cpus: cpus as usize, kinds: kinds.min(MAX_KINDS) })
    }

    /// Returns the sums over all CPUs, by the number of the kind.
    pub(in crate::live) fn sums(&self) -> Vec<KindCost> {
        let word = |cpu: usize, kind: usize, word: usize| {
            let at = ((cpu * MAX_KINDS + kind) * COST_WORDS + word) * 8;
            self.costs.word(at).load(Ordering::Relaxed)
        };
        let sum = |kind| {
            let sum = |index| (0..self.cpus).map(|cpu| word(cpu, kind, index)).fold(0, u64::wrapping_add);
            let [samples, skipped, time, idle, value] = std::array::from_fn::<_, COST_WORDS, _>(sum);
            let (time, idle_time) = (Duration::from_nanos(time), Duration::from_nanos(idle));
            KindCost { samples, skipped, time, idle_time, value }
        };
        (0..self.kinds).map(sum).collect()
    }

    /// Sets the period of a kind.
    pub(in crate::live) fn set_period(&self, kind: usize, period: u64) -> io::Result<()> {
        self.periods.set(kind as u32, &period.to_ne_bytes())
    }
}
