//! What the kernel side is published of processes, and when.

use std::sync::Arc;

use ebpf_programs::abi::arena::UNIT;
use ebpf_programs::abi::mapping::{Mapping, Process, filter, kind};

use super::modules::{Modules, Table};
use super::{Entry, Registry};
use crate::process::{self, ModuleId};

/// What the kernel side was published of a process. It holds for what the process forked since, too, for each of them
/// as long as nothing else is mapped there.
pub(super) struct Published {
    pub(super) process: Process,
    /// How many bytes the descriptions of its interpreters take in the arena.
    described: usize,
}

impl Published {
    /// How many bytes its mappings take in the arena.
    fn mapped(&self) -> usize {
        self.process.count as usize * size_of::<Mapping>()
    }
}

impl Registry {
    /// What the kernel side would be published of a process: an up-to-date [`Process`] in the arena.
    ///
    /// `None` when nothing is mapped in it, or there is no room.
    pub fn publish(&mut self, pid: u32, now: u64) -> Option<Process> {
        self.ensure_mappings(pid, now);
        let published = match &self.processes.get(&pid)?.published {
            Some(published) => published.process,
            None => self.write_mappings(pid, now)?,
        };
        if self.tables.set_process(pid, &published).is_err() {
            *self.stats.without_table.entry("processes beyond what the kernel side knows").or_default() += 1;
        }
        Some(published)
    }

    /// Writes the mappings of a process into the arena.
    fn write_mappings(&mut self, pid: u32, now: u64) -> Option<Process> {
        self.resolve(pid, now);
        self.discover_runtimes(pid, now);
        let entry = self.processes.get_mut(&pid)?;
        let bytes = kernel_mappings(entry, &self.modules);
        if bytes.is_empty() {
            return None;
        }
        let descriptions = entry.interpreters.bytes();
        let mappings = self.write_bytes(&bytes, now)?;
        let interpreters = match descriptions.as_slice() {
            [] => 0,
            descriptions => {
                let place = self.write_bytes(descriptions, now);
                if place.is_none() {
                    self.allocator.free(mappings, bytes.len(), now);
                }
                place?
            }
        };
        let count = (bytes.len() / size_of::<Mapping>()) as u32;
        let process = Process { mappings, count, raw_budget: RAW_BUDGET, filter: filter::KEEP, interpreters };
        let published = Published { process, described: descriptions.len() };
        self.processes.get_mut(&pid)?.published = Some(Arc::new(published));
        Some(process)
    }

    /// Lays bytes into the arena; where.
    fn write_bytes(&mut self, bytes: &[u8], now: u64) -> Option<u32> {
        let place = self.allocator.allocate(bytes.len(), now)?;
        if self.tables.write(u64::from(place) * UNIT as u64, bytes).is_err() {
            self.allocator.free(place, bytes.len(), now);
            return None;
        }
        Some(place)
    }

    /// What was published of a process is no longer so.
    pub(super) fn withdraw(&mut self, pid: u32, now: u64) -> bool {
        let Some(published) = self.processes.get_mut(&pid).and_then(|entry| entry.published.take()) else {
            return false;
        };
        if let Some(published) = Arc::into_inner(published) {
            // No other process is known by it.
            self.allocator.free(published.process.mappings, published.mapped(), now);
            if published.described > 0 {
                self.allocator.free(published.process.interpreters, published.described, now);
            }
        }
        true
    }

    /// Lets the kernel side know a process anew, if it knew it.
    pub(super) fn republish(&mut self, pid: u32, now: u64) {
        if self.withdraw(pid, now) && self.publish(pid, now).is_none() {
            // What it knows lies where other things will lie soon.
            self.tables.remove_process(pid);
        }
    }

    /// Whether what the kernel side walked in this process holds: it knows it as it is now, or did so until life events
    /// were lost.
    pub fn is_walk_valid(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|entry| entry.published.is_some() || entry.rediscovered)
    }

    /// Builds the table for the file at `address` of a process, if that wasn't tried yet.
    ///
    /// True when the kernel side knows more of it than before.
    pub fn build_table(&mut self, pid: u32, address: u64, now: u64) -> bool {
        let Some(id) = self.module_at(pid, address) else { return false };
        let Some(entry) = self.modules.get_mut(id) else { return false };
        if entry.table != Table::Pending {
            return false;
        }
        entry.used = now;
        match entry.build(self.compiler.as_deref(), &mut *self.tables, &mut self.allocator, now) {
            Ok(unsupported) => {
                self.stats.tables += 1;
                self.stats.unsupported_rows += u64::from(unsupported);
            }
            Err(reason) => *self.stats.without_table.entry(reason).or_default() += 1,
        }
        self.publish_table(id);
        true
    }

    /// Builds the tables of all files of a process.
    pub(crate) fn build_tables(&mut self, pid: u32, now: u64) {
        let Some(regions) = self.processes.get(&pid).map(|entry| entry.regions.clone()) else { return };
        for region in regions.iter().filter(|region| region.file.is_some()) {
            self.build_table(pid, region.map.start, now);
        }
    }

    /// Finds the file of every region.
    pub(super) fn resolve(&mut self, pid: u32, now: u64) {
        let Registry { processes, modules, system, .. } = self;
        let Some(entry) = processes.get_mut(&pid) else { return };
        if entry.regions.iter().any(|region| region.file.is_none() && !region.is_anonymous()) {
            for region in Arc::make_mut(&mut entry.regions) {
                if region.file.is_none() && !region.is_anonymous() {
                    region.file = modules.resolve(pid, &region.map, &**system);
                }
            }
        }
        for region in entry.regions.iter() {
            if let Some(module) = region.file.and_then(|file| modules.get_mut(file.module)) {
                module.used = now;
            }
        }
    }

    fn module_at(&self, pid: u32, address: u64) -> Option<ModuleId> {
        let regions = &self.processes.get(&pid)?.regions;
        Some(regions[process::find(regions, address)?].file?.module)
    }

    /// Writes what became of a module's table into the mappings of every process that is published.
    fn publish_table(&mut self, id: ModuleId) {
        let Some(table) = self.modules.get(id).map(|entry| entry.table) else { return };
        let (place, kind) = table.words();
        for entry in self.processes.values() {
            let Some(at) = entry.published.as_ref().map(|published| published.process.mappings) else {
                continue;
            };
            for (index, region) in entry.regions.iter().take(MAX_MAPPINGS).enumerate() {
                if let Some(file) = region.file.filter(|file| file.module == id) {
                    let interpreter = entry.interpreters.number(id, file.bias);
                    let words = u64::from(place) | u64::from(kind) << 32 | u64::from(interpreter) << 48;
                    let offset = index * size_of::<Mapping>() + core::mem::offset_of!(Mapping, table);
                    // Written before, so the room is there.
                    let _ =
                        self.tables.write(u64::from(at) * UNIT as u64 + offset as u64, &words.to_ne_bytes());
                }
            }
        }
    }
}

/// The regions as the kernel side reads them.
fn kernel_mappings(entry: &Entry, modules: &Modules) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entry.regions.len() * size_of::<Mapping>());
    for region in entry.regions.iter().take(MAX_MAPPINGS) {
        let table = region.file.and_then(|file| modules.get(file.module)).map(|entry| entry.table);
        let (place, kind) = table.map_or((0, kind::BARE), Table::words);
        bytes.extend(region.map.start.to_ne_bytes());
        bytes.extend(region.map.end.to_ne_bytes());
        bytes.extend(region.file.map_or(0, |file| file.bias).to_ne_bytes());
        bytes.extend(place.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(
            region.file.map_or(0, |file| entry.interpreters.number(file.module, file.bias)).to_ne_bytes(),
        );
    }
    bytes
}

/// How many raw ticks for want of a mapping a process is granted each time that it is published anew.
const RAW_BUDGET: u32 = 16;

/// The most mappings of a process that are published to the kernel side: one search finds any of them.
const MAX_MAPPINGS: usize = 1 << 14;
