//! The mappings of a process: followed by events, and read again after what was missed.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::modules::Modules;
use super::{IDLE, Registry};
use crate::process::{FileName, Region, Regions, System};
use crate::sample::{FileId, MapEvent};

impl Registry {
    /// Reads the mappings of a process again, after a sample in an unknown mapping.
    pub fn reread_mappings(&mut self, pid: u32, now: u64) {
        if self.processes.get(&pid).is_none_or(|entry| !entry.exceeds) && self.read_mappings(pid, now) {
            self.mark_due(pid);
        }
    }

    /// Returns `true` if a process maps something at these addresses.
    pub(crate) fn overlaps(&self, pid: u32, addresses: Range<u64>) -> bool {
        let regions = self.processes.get(&pid).map(|entry| &entry.regions);
        regions.is_some_and(|regions| regions.overlapping(addresses.start, addresses.end).next().is_some())
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

    /// Reads the mappings of a process, if that is allowed at `now`. Returns `true` if they differ
    /// from what was known.
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
        let since = self.publisher.next_epoch();
        let Registry { processes, modules, system, names, limits, region_count, .. } = self;
        let most = limits.mappings;
        let Some(entry) = processes.get_mut(&pid) else { return false };
        let exceeds = maps.len() > most;
        entry.names = 0;
        let regions = maps.iter().filter_map(|map| {
            let name = names.intern(map, limits.name_bytes, &mut entry.names, limits.files)?;
            Some(Region::new(map, name))
        });
        let mut regions: Vec<Region> = regions.collect();
        let mut files = Files { pid, modules, limit: limits.modules, system: &**system };
        for region in &mut regions {
            files.keep_module(region, &entry.regions);
        }
        let regions = Regions::from_sorted(regions, most, region_count);
        entry.is_complete = !regions.is_empty();
        let exceeds = exceeds || entry.names >= limits.files;
        let is_changed = !entry.regions.is_same_layout(&regions, |old, new| files.is_same(old, &new.map()));
        if is_changed {
            for new in regions.iter().filter(|_| entry.published.is_some()) {
                if files.replaces(&new.map(), &entry.regions) {
                    entry.epochs.replace(new.start, new.end, since);
                }
            }
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
        let since = self.publisher.next_epoch();
        let Registry { processes, modules, publisher, system, names, limits, region_count, .. } = self;
        let entry = processes.entry(pid).or_default();
        // Either it was there when the mappings were read, or it was unmapped since, which sends no event.
        let mut files = Files { pid, modules, limit: limits.modules, system: &**system };
        let is_known = entry.regions.around(map).is_some_and(|region| files.is_same(region, map));
        let mut has_room = true;
        if !is_known {
            if entry.published.is_some() && files.replaces(map, &entry.regions) {
                entry.epochs.replace(map.start, map.end, since);
            }
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
            // A compiler makes its memory executable again with each function, and that memory has no file.
            && !region.is_anonymous()
            && let Some(id) = modules.known(region).or_else(|| {
                let has_room = modules.make_room(limits.modules, now, &mut publisher.arena);
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

/// Compares files of the mappings of one process.
struct Files<'a> {
    pid: u32,
    modules: &'a mut Modules,
    /// Maximum number of modules.
    limit: usize,
    system: &'a dyn System,
}

impl Files<'_> {
    /// Returns `true` if a mapping is of the same file as a region, or of anonymous memory as it.
    ///
    /// Events identify a file by its build id or by its inode and the generation of that, `/proc`
    /// by its inode alone. The modules of different identities are compared, if the region's is
    /// known.
    fn is_same(&mut self, region: &Region, map: &MapEvent) -> bool {
        let file = &region.name.file;
        let is_anonymous = |file: &FileId| *file == FileId::Anonymous;
        let is_same_form = std::mem::discriminant(file) == std::mem::discriminant(&map.file);
        if is_same_form || is_anonymous(file) || is_anonymous(&map.file) {
            return *file == map.file;
        }
        let Some(mapped) = region.file else { return false };
        let module = self.modules.with_identity(mapped.module, &map.file).or_else(|| {
            let name = FileName { file: map.file.clone(), path: map.path.clone() };
            let region = Region::new(map, Arc::new(name));
            self.modules.has_room(self.limit).then(|| self.modules.add(self.pid, &region, self.system))?
        });
        module == Some(mapped.module)
    }

    /// Takes the module of the same mapping as it was known before: until the process is published
    /// again, its frames have names.
    fn keep_module(&mut self, region: &mut Region, former: &Regions) {
        let map = region.map();
        let known = former.around(&map).filter(|known| known.file.is_some() && self.is_same(known, &map));
        if let Some(known) = known {
            region.file = known.file;
        }
    }

    /// Returns `true` if a mapping replaces others of which its file has not the same bytes at the
    /// same addresses.
    fn replaces(&mut self, map: &MapEvent, regions: &Regions) -> bool {
        let mut former = regions.overlapping(map.start, map.end);
        former.any(|region| !region.has_offset_of(map) || !self.is_same(region, map))
    }
}
