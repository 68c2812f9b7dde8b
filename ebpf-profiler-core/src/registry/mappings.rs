//! The mappings of a process: followed by events, and read again after what was missed.

use std::io;

use super::{IDLE, Registry};
use crate::process::{Region, Regions};
use crate::sample::MapEvent;

impl Registry {
    /// Reads the mappings of a process again, after a sample in an unknown mapping.
    pub fn reread_mappings(&mut self, pid: u32, now: u64) {
        if self.processes.get(&pid).is_none_or(|entry| !entry.exceeds) && self.read_mappings(pid, now) {
            self.mark_due(pid);
        }
    }

    pub(super) fn ensure_mappings(&mut self, pid: u32, now: u64) {
        if self.processes.get(&pid).is_none_or(|entry| !entry.is_complete || entry.regions.is_empty()) {
            self.read_mappings(pid, now);
        }
    }

    /// Reads the mappings of a process again if life events were lost since they were complete.
    ///
    /// Returns `true` if they differ from what was known.
    pub(super) fn verify(&mut self, pid: u32, now: u64) -> bool {
        let lost = self.lost;
        self.processes.get(&pid).is_some_and(|entry| entry.verified < lost) && self.read_mappings(pid, now)
    }

    /// Reads the mappings of a process, if that is allowed at `now`. Returns `true` if they differ from what was known.
    pub(super) fn read_mappings(&mut self, pid: u32, now: u64) -> bool {
        let entry = self.processes.entry(pid).or_default();
        entry.read_limit.allow(now) && self.read_mappings_now(pid, now)
    }

    pub(super) fn read_mappings_now(&mut self, pid: u32, now: u64) -> bool {
        let entry = self.processes.entry(pid).or_default();
        entry.verified = entry.verified.max(now);
        let maps = match self.system.mappings(pid) {
            Ok(maps) => maps,
            Err(error) => {
                if error.kind() == io::ErrorKind::FileTooLarge {
                    entry.read_limit.postpone(now);
                    self.mark_exceeding(pid);
                }
                return false;
            }
        };
        let Registry { names, limits, region_count, .. } = self;
        let most = limits.mappings;
        let Some(entry) = self.processes.get_mut(&pid) else { return false };
        let exceeds = maps.len() > most;
        entry.names = 0;
        let regions = maps.iter().filter_map(|map| {
            let name = names.intern(map, limits.name_bytes, &mut entry.names, limits.files)?;
            Some(Region::new(map, name))
        });
        let regions = Regions::from_sorted(regions, most, region_count);
        entry.is_complete = !regions.is_empty();
        let exceeds = exceeds || entry.names >= limits.files;
        let is_changed = !entry.regions.is_same_layout(&regions);
        if is_changed {
            entry.regions = regions;
            entry.is_changed = true;
        }
        if exceeds {
            self.mark_exceeding(pid);
        } else {
            entry.exceeds = false;
        }
        is_changed
    }

    pub(super) fn map(&mut self, pid: u32, map: &MapEvent, now: u64) {
        let Registry { processes, modules, allocator, system, names, limits, region_count, .. } = self;
        let entry = processes.entry(pid).or_default();
        // Either it was there when the mappings were read, or it was unmapped since, which sends no event.
        let is_known = entry.regions.has(map);
        let mut has_room = true;
        if !is_known {
            let name = names.intern(map, limits.name_bytes, &mut entry.names, limits.files);
            has_room = match name {
                Some(name) => entry.regions.insert(Region::new(map, name), limits.mappings, region_count),
                None => {
                    entry.regions.remove(map.start, map.end, region_count);
                    false
                }
            };
            entry.is_changed = true;
        }
        if !entry.interpreters.are_none()
            && let Some(region) = entry.regions.find(map.start)
            && let Some(id) = modules.known(region).or_else(|| {
                let has_room = modules.make_room(limits.modules, allocator, now);
                has_room.then(|| modules.add(pid, region, &**system))?
            })
            && modules.place(id, region, now).is_some_and(|file| entry.interpreters.renew(file))
        {
            entry.is_changed = true;
        }
        let is_sampled = now.saturating_sub(entry.sampled) < IDLE;
        if entry.is_changed && is_sampled {
            self.mark_due(pid);
        }
        if !has_room {
            self.mark_exceeding(pid);
        }
    }

    pub(super) fn mark_exceeding(&mut self, pid: u32) {
        if let Some(entry) = self.processes.get_mut(&pid)
            && !std::mem::replace(&mut entry.exceeds, true)
        {
            self.stats.exceeding += 1;
        }
    }
}
