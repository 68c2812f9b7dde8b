//! Departure of processes and files from the registry: at their end, and to stay within the [`Limits`](super::Limits).

use hashbrown::HashSet;

use super::{Entry, IDLE, Registry};
use crate::process::Regions;

/// The longest time between two checks for other threads of a process whose first thread ended, in nanoseconds.
const MAX_LINGER: u64 = 32_000_000_000;

/// Time that a file without processes keeps its table, in nanoseconds.
const KEEP: u64 = 60_000_000_000;

/// Time that a process with too many mappings is left out when others need its share, in nanoseconds.
const EVICTED: u64 = 10_000_000_000;

impl Registry {
    /// Drops processes that ended.
    pub fn expire(&mut self, now: u64) {
        while let Some(&(at, pid)) = self.leaving.front() {
            if now < at {
                break;
            }
            self.leaving.pop_front();
            // The id may belong to another process by now.
            let is_it = |entry: &&mut Entry| {
                entry.ended.is_some_and(|ended| ended.saturating_add(entry.linger) == at)
            };
            let Some(entry) = self.processes.get_mut(&pid).filter(is_it) else { continue };
            if self.system.mappings(pid).is_ok_and(|maps| !maps.is_empty()) {
                // Other threads run on, and their end sends no event.
                entry.linger = (entry.linger * 2).min(MAX_LINGER);
                entry.ended = Some(now);
                let at = now.saturating_add(entry.linger);
                let next = self.leaving.partition_point(|&(other, _)| other <= at);
                self.leaving.insert(next, (at, pid));
            } else {
                self.forget(pid);
                if let Some(selected) = &mut self.selected {
                    selected.remove(&pid);
                }
            }
        }
    }

    /// Frees the tables of files that no process has had mapped for 60 s, and the memory of those freed before.
    pub fn free_unused(&mut self, now: u64) {
        self.modules.drop_unused(&mut self.allocator, now, KEEP);
        for bytes in self.allocator.free_ranges(now) {
            self.tables.unused(bytes);
        }
        if self.lost > self.swept {
            self.swept = self.lost;
            self.drop_ended();
        }
    }

    /// Drops processes whose exit may have been lost.
    fn drop_ended(&mut self) {
        let running: HashSet<u32> = self.system.processes().into_iter().collect();
        if running.is_empty() {
            // A recording without the answer.
            return;
        }
        let is_gone = |(pid, entry): (&u32, &Entry)| {
            (entry.verified < self.lost && !running.contains(pid)).then_some(*pid)
        };
        let gone: Vec<u32> = self.processes.iter().filter_map(is_gone).collect();
        for pid in gone {
            self.forget(pid);
        }
        if let Some(selected) = &mut self.selected {
            selected.retain(|pid| running.contains(pid));
        }
    }

    pub(super) fn forget(&mut self, pid: u32) {
        if self.withdraw(pid) {
            self.tables.remove_process(pid);
        }
        self.processes.remove(&pid);
    }

    /// Drops what exceeds the limits of all processes together.
    pub(super) fn enforce_limits(&mut self, now: u64) {
        if self.processes.len() > self.limits.processes {
            let mut pids: Vec<(bool, u64, u32)> = self
                .processes
                .iter()
                .map(|(&pid, entry)| (entry.published.is_some(), entry.sampled, pid))
                .collect();
            pids.sort_unstable();
            for &(_, _, pid) in pids.iter().take(pids.len() / 4) {
                self.forget(pid);
            }
        }
        if self.region_count.get() > self.limits.regions {
            // Those without samples first: they are read again when they have one.
            for entry in self.processes.values_mut().filter(|entry| entry.published.is_none()) {
                entry.regions = Regions::default();
                entry.is_complete = false;
            }
            if self.region_count.get() > self.limits.regions / 4 * 3 {
                self.evict_largest(now);
            }
        }
    }

    /// Withdraws the processes with the most mappings until a quarter of the limit is free.
    pub(super) fn evict_largest(&mut self, now: u64) {
        let mut largest: Vec<(usize, u32)> =
            self.processes.iter().map(|(&pid, entry)| (entry.regions.len(), pid)).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let goal = self.limits.regions / 4 * 3;
        for (_, pid) in largest {
            if self.region_count.get() <= goal && self.published_mappings <= goal {
                break;
            }
            if self.withdraw(pid) {
                self.tables.remove_process(pid);
            }
            self.mark_exceeding(pid);
            if let Some(entry) = self.processes.get_mut(&pid) {
                entry.regions = Regions::default();
                entry.is_complete = false;
                entry.is_changed = true;
                entry.next_publish = now.saturating_add(EVICTED);
            }
        }
    }

    /// Withdraws the processes without samples in the last second. Returns `true` if there were any.
    pub(super) fn withdraw_idle(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.withdrawn) < IDLE {
            return false;
        }
        self.withdrawn = now;
        let is_idle = |(pid, entry): (&u32, &Entry)| {
            (entry.published.is_some() && now.saturating_sub(entry.sampled) > IDLE).then_some(*pid)
        };
        let idle: Vec<u32> = self.processes.iter().filter_map(is_idle).collect();
        for &pid in &idle {
            self.withdraw(pid);
            self.tables.remove_process(pid);
        }
        !idle.is_empty()
    }
}
