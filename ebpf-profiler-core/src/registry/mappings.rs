//! The mappings of a process: followed by events, and read again after what was missed.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::IDLE_TIME;
use super::arena::Arena;
use super::modules::Modules;
use super::processes::Processes;
use crate::process::{FileName, Mapped, Region, Regions, System};
use crate::sample::{FileId, MapEvent};

impl Processes {
    /// Returns `true` if a process maps something at these addresses.
    pub(crate) fn overlaps(&self, pid: u32, addresses: Range<u64>) -> bool {
        let regions = self.get(pid).map(|entry| &entry.regions);
        regions.is_some_and(|regions| regions.overlapping(addresses.start, addresses.end).next().is_some())
    }

    /// Reads the mappings of a process, unless they are known.
    pub(super) fn ensure_mappings(&mut self, pid: u32, now: u64, files: &mut Files<'_>) {
        if self.get(pid).is_none_or(|entry| !entry.is_complete || entry.regions.is_empty()) {
            self.read_mappings(pid, now, files);
        }
    }

    /// Reads the mappings of a process again if life events were lost since they were complete.
    ///
    /// Returns `true` if they differ from what was known.
    pub(super) fn verify(&mut self, pid: u32, now: u64, files: &mut Files<'_>) -> bool {
        let lost = self.lost;
        self.get(pid).is_some_and(|entry| entry.verified < lost) && self.read_mappings(pid, now, files)
    }

    /// Reads the mappings of a process, if that is allowed at `now`. Returns `true` if they differ
    /// from what was known.
    pub(super) fn read_mappings(&mut self, pid: u32, now: u64, files: &mut Files<'_>) -> bool {
        self.entry(pid).read_limit.allow(now) && self.read_mappings_now(pid, now, files)
    }

    pub(super) fn read_mappings_now(&mut self, pid: u32, now: u64, files: &mut Files<'_>) -> bool {
        let entry = self.entry(pid);
        entry.verified = entry.verified.max(now);
        let maps = match files.system.mappings(pid) {
            Ok(maps) => maps,
            Err(error) => {
                if error.kind() == io::ErrorKind::FileTooLarge {
                    entry.read_limit.postpone(now);
                    self.mark_exceeding(pid);
                }
                return false;
            }
        };
        let Processes { entries, names, limits, region_count, .. } = self;
        let most = limits.mappings;
        let Some(entry) = entries.get_mut(&pid) else { return false };
        let exceeds = maps.len() > most;
        entry.names = 0;
        let regions = maps.iter().filter_map(|map| {
            let name = names.intern(map, limits.name_bytes, &mut entry.names, limits.files)?;
            Some(Region::new(map, name))
        });
        let mut regions: Vec<Region> = regions.collect();
        for region in &mut regions {
            files.keep_module(pid, region, &entry.regions);
        }
        let regions = Regions::from_sorted(regions, most, region_count);
        entry.is_complete = !regions.is_empty();
        let exceeds = exceeds || entry.names >= limits.files;
        let is_changed =
            !entry.regions.is_same_layout(&regions, |old, new| files.is_same(pid, old, &new.map()));
        if is_changed {
            for new in regions.iter().filter(|_| entry.published.is_some()) {
                if files.replaces(pid, &new.map(), &entry.regions) {
                    entry.epochs.replace(new.start, new.end, files.since);
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

    /// Adds a mapping of a process.
    pub(super) fn map(&mut self, pid: u32, map: &MapEvent, now: u64, files: &mut Files<'_>) {
        let Processes { entries, names, limits, region_count, .. } = self;
        let entry = entries.entry(pid).or_default();
        // Either it was there when the mappings were read, or it was unmapped since, which sends no event.
        let is_known = entry.regions.containing(map).is_some_and(|region| files.is_same(pid, region, map));
        let mut has_room = true;
        if !is_known {
            if entry.published.is_some() && files.replaces(pid, map, &entry.regions) {
                entry.epochs.replace(map.start, map.end, files.since);
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
            && files.place(pid, region, now).is_some_and(|file| entry.interpreters.renew(file))
        {
            entry.is_changed = true;
        }
        let is_sampled = now.saturating_sub(entry.sampled) < IDLE_TIME;
        if entry.is_changed && is_sampled {
            self.mark_due(pid);
        }
        if !has_room {
            self.mark_exceeding(pid);
        }
    }
}

/// Opens and compares the files of mappings.
pub(super) struct Files<'a> {
    pub(super) modules: &'a mut Modules,
    /// Maximum number of modules.
    pub(super) limit: usize,
    pub(super) arena: &'a mut Arena,
    pub(super) system: &'a dyn System,
    /// Epoch of the state that is published next.
    pub(super) since: u32,
}

impl Files<'_> {
    /// Returns the place of a region in its file, which is opened if it is not known.
    fn place(&mut self, pid: u32, region: &Region, now: u64) -> Option<Mapped> {
        let id = self.modules.known(region).or_else(|| {
            let has_room = self.modules.make_room(self.limit, now, self.arena);
            has_room.then(|| self.modules.add(pid, region, self.system))?
        })?;
        self.modules.place(id, region, now)
    }

    /// Returns `true` if a mapping is of the same file as a region, or of anonymous memory as it.
    ///
    /// Events identify a file by its build id or by its inode and the generation of that, `/proc`
    /// by its inode alone. The modules of different identities are compared, if the region's is
    /// known.
    fn is_same(&mut self, pid: u32, region: &Region, map: &MapEvent) -> bool {
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
            self.modules.has_room(self.limit).then(|| self.modules.add(pid, &region, self.system))?
        });
        module == Some(mapped.module)
    }

    /// Takes the module of the same mapping as it was known before: until the process is published
    /// again, its frames have names.
    fn keep_module(&mut self, pid: u32, region: &mut Region, former: &Regions) {
        let map = region.map();
        let known =
            former.containing(&map).filter(|known| known.file.is_some() && self.is_same(pid, known, &map));
        if let Some(known) = known {
            region.file = known.file;
        }
    }

    /// Returns `true` if a mapping replaces others of which its file has not the same bytes at the
    /// same addresses.
    fn replaces(&mut self, pid: u32, map: &MapEvent, regions: &Regions) -> bool {
        let mut former = regions.overlapping(map.start, map.end);
        former.any(|region| !region.has_offset_of(map) || !self.is_same(pid, region, map))
    }
}
