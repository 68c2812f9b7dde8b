//! Departure of processes and files from the registry: at their end, and to stay within the
//! [`Limits`](super::Limits).

use std::cmp::Reverse;

use hashbrown::HashSet;

use super::limits::Limits;
use super::processes::Entry;
use super::{IDLE_TIME, Registry};
use crate::process::Regions;

/// Time that a file without processes keeps its table, in nanoseconds.
const KEEP_TIME: u64 = 60_000_000_000;

/// Time that a process is left out when others need its share of the mappings, in nanoseconds.
const EVICTION_TIME: u64 = 10_000_000_000;

/// Time without a sample after which a process makes room for others first, in nanoseconds.
const LONG_IDLE_TIME: u64 = 10_000_000_000;

/// Number of processes of which each may take the same part of the limit of mappings.
const SHARES: usize = 64;

/// Order in which processes make room when all together have too many mappings.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Without a sample for 10 s, the longest time first. Such a process is read again as soon as
    /// it is sampled.
    Idle { sampled: u64 },
    /// With more than a 64th of the limit, the largest first. It is left out for 10 s.
    Large { regions: Reverse<usize> },
    /// Others, those without a sample for the longest time first, in powers of two of it. They are
    /// left out for 10 s, too.
    Busy { age: Reverse<u32>, regions: Reverse<usize> },
}

impl Rank {
    fn of(entry: &Entry, share: usize, now: u64) -> Rank {
        let age = now.saturating_sub(entry.sampled);
        let regions = Reverse(entry.regions.len());
        if age > LONG_IDLE_TIME {
            return Rank::Idle { sampled: entry.sampled };
        }
        if entry.regions.len() > share {
            return Rank::Large { regions };
        }
        Rank::Busy { age: Reverse((age / 1_000_000).checked_ilog2().unwrap_or(0)), regions }
    }
}

impl Registry {
    /// Drops processes that ended.
    pub fn expire(&mut self, now: u64) {
        while let Some(pid) = self.processes.take_leaving(now) {
            if self.has_memory(pid) {
                self.processes.linger(pid, now);
            } else {
                self.forget(pid);
                self.processes.keep_selected(|other| other != pid);
            }
        }
    }

    /// Frees the tables of files that no process has had mapped for 60 s, and the memory of those
    /// freed before.
    pub fn free_unused(&mut self, now: u64) {
        self.modules.drop_unused(KEEP_TIME, now, &mut self.publisher.arena);
        self.publisher.arena.return_memory(now);
        if self.processes.lost > self.processes.swept {
            self.processes.swept = self.processes.lost;
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
        let lost = self.processes.lost;
        for pid in self.processes.pids_where(|entry| entry.verified < lost) {
            if !running.contains(&pid) {
                self.forget(pid);
            }
        }
        self.processes.keep_selected(|pid| running.contains(&pid));
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.unpublish(pid);
        self.processes.entries.remove(&pid);
    }

    /// Drops what exceeds the limits of all processes together.
    pub(super) fn enforce_limits(&mut self, now: u64) {
        let Limits { processes, regions, .. } = self.processes.limits;
        if self.processes.entries.len() > processes {
            let mut pids: Vec<(bool, u64, u32)> = self
                .processes
                .entries
                .iter()
                .map(|(&pid, entry)| (entry.published.is_some(), entry.sampled, pid))
                .collect();
            pids.sort_unstable();
            for &(_, _, pid) in pids.iter().take(pids.len() / 4) {
                self.forget(pid);
            }
        }
        if self.processes.region_count.get() > regions {
            // Those without samples first: they are read again when they have one.
            for entry in self.processes.entries.values_mut().filter(|entry| entry.published.is_none()) {
                entry.regions = Regions::default();
                entry.is_complete = false;
            }
            if self.processes.region_count.get() > regions / 4 * 3 {
                self.evict(now);
            }
        }
    }

    /// Withdraws processes until a quarter of the limit of mappings is free: see [`Rank`].
    pub(super) fn evict(&mut self, now: u64) {
        let share = self.processes.limits.regions / SHARES;
        let ranked = self.processes.entries.iter().filter(|(_, entry)| !entry.regions.is_empty());
        let mut ranked: Vec<(Rank, u32)> =
            ranked.map(|(&pid, entry)| (Rank::of(entry, share, now), pid)).collect();
        ranked.sort_unstable();
        let goal = self.processes.limits.regions / 4 * 3;
        for (rank, pid) in ranked {
            if self.processes.region_count.get() <= goal && self.publisher.mappings() <= goal {
                break;
            }
            self.unpublish(pid);
            let is_idle = matches!(rank, Rank::Idle { .. });
            if !is_idle {
                self.processes.mark_exceeding(pid);
            }
            if let Some(entry) = self.processes.get_mut(pid) {
                entry.regions = Regions::default();
                entry.is_complete = false;
                entry.is_changed = true;
                if !is_idle {
                    entry.next_publish = now.saturating_add(EVICTION_TIME);
                }
            }
        }
    }

    /// Withdraws half of the processes without samples in the last second, those without one for
    /// the longest time first: each of them sends a raw sample when it runs again. Returns
    /// `true` if there were any.
    pub(super) fn withdraw_idle(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.idle_withdrawn) < IDLE_TIME {
            return false;
        }
        self.idle_withdrawn = now;
        let is_idle = |(pid, entry): (&u32, &Entry)| {
            let is_idle = entry.published.is_some() && now.saturating_sub(entry.sampled) > IDLE_TIME;
            is_idle.then_some((entry.sampled, *pid))
        };
        let mut idle: Vec<(u64, u32)> = self.processes.entries.iter().filter_map(is_idle).collect();
        idle.sort_unstable();
        idle.truncate(idle.len().div_ceil(2));
        for &(_, pid) in &idle {
            self.unpublish(pid);
        }
        !idle.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{FileId, MapEvent};
    use crate::tables::MemoryTables;
    use crate::testing::FakeSystem;

    const SECOND: u64 = 1_000_000_000;

    /// A registry with room for 6,400 mappings, and processes with these numbers of them.
    fn registry(processes: impl IntoIterator<Item = (u32, u64)>) -> Registry {
        let file = FileId::Inode { device: (8, 1), inode: 42 };
        let map = |at: u64| MapEvent::new(at << 16..(at << 16) + 0x1000, 0, file.clone(), "/lib/x.so");
        let system = processes.into_iter().fold(FakeSystem::default(), |system, (pid, count)| {
            system.process(pid, "/bin/x", (1..=count).map(map).collect())
        });
        let system = system.file("/lib/x.so", b"no code");
        let mut registry = Registry::new(Box::new(system), Box::new(MemoryTables::default()), None, 1 << 30);
        registry.set_limits(Limits { regions: 6400, ..Limits::default() });
        registry
    }

    fn is_published(registry: &Registry, pid: u32) -> bool {
        registry.processes.get(pid).is_some_and(|entry| entry.published.is_some())
    }

    /// Samples processes one by one from a time on, at one a millisecond, and a further one each
    /// time.
    fn sample(registry: &mut Registry, from: u64, pids: impl Iterator<Item = u32>, other: u32) -> u64 {
        let mut now = from;
        for pid in pids {
            now += SECOND / 1000;
            registry.publish(other, now);
            registry.publish(pid, now);
            registry.publish_changed(now);
        }
        now
    }

    #[test]
    fn idle_processes_make_room_for_a_large_one_that_is_busy() {
        let small = (2..490).map(|pid| (pid, 15));
        let mut registry = registry([(1, 2000)].into_iter().chain(small));
        let now = sample(&mut registry, SECOND, 2..290, 1);
        assert!((1..290).all(|pid| is_published(&registry, pid)));
        sample(&mut registry, now + 11 * SECOND, 290..490, 1);
        assert!(is_published(&registry, 1) && (290..490).all(|pid| is_published(&registry, pid)));
        assert!(registry.stats().mappings <= 6400 && registry.stats().exceeding == 0);
        // An idle one that runs again is there at once.
        sample(&mut registry, now + 12 * SECOND, [5].into_iter(), 1);
        assert!(is_published(&registry, 5));
    }

    #[test]
    fn processes_beyond_their_share_make_room_for_small_ones() {
        let large = (1000..1010).map(|pid| (pid, 600));
        let mut registry = registry([(1, 99)].into_iter().chain(large).chain((2..100).map(|pid| (pid, 15))));
        let now = sample(&mut registry, SECOND, 1000..1010, 1);
        sample(&mut registry, now, 2..100, 1);
        assert!((1..100).all(|pid| is_published(&registry, pid)));
        assert!(registry.stats().exceeding > 0 && registry.stats().mappings <= 6400);
    }

    #[test]
    fn busier_processes_stay_among_small_ones() {
        let mut registry = registry([(1, 99)].into_iter().chain((2..700).map(|pid| (pid, 15))));
        sample(&mut registry, SECOND, 2..700, 1);
        assert!(is_published(&registry, 1), "it was sampled all the time");
        assert!(is_published(&registry, 699) && !is_published(&registry, 2));
    }
}
