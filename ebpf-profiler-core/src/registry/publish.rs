//! The state of processes in the kernel maps, and when it is written.
//!
//! ```text
//!   life event ──► regions ──► changed ─┐
//!   sample ────────────────► sampled ───┴──► published once, at the end of the batch
//! ```
//!
//! A mapping event marks its process as changed. A changed process is published when a raw sample of it is walked, or at
//! the end of a batch with a sample of it; one that is not sampled costs nothing. The more mappings a process has, the
//! longer it waits until it is published again; samples taken in that time end with
//! [`Stop::TooManyMappings`].

use std::ops::Range;
use std::sync::Arc;

use ebpf_programs::abi::mapping::{Process, filter};
use hashbrown::HashMap;

use super::Registry;
use super::encode::Encoded;
use super::limits::retry_after;
use super::processes::{Entry, Processes};
use crate::language::{SampleId, Unreadable};
use crate::process::{LoadBias, Mapped, ModuleId};
use crate::sample::{Body, TickRecord};
use crate::trace::{FrameWord, Stop};

impl Registry {
    /// Publishes the current mappings of a process. Called for every raw sample.
    ///
    /// `None` if it has no mappings, or if it exceeds its [limits](super::Limits): see `Processes::stop_of`.
    pub fn publish(&mut self, pid: u32, now: u64) -> Option<Process> {
        self.ensure_mappings(pid, now);
        self.verify(pid, now);
        let entry = self.processes.get_mut(pid)?;
        entry.sampled = entry.sampled.max(now);
        if entry.exceeds && entry.regions.is_empty() {
            // Without mappings and raw samples its samples cost nothing but their records.
            self.set_process(pid, &Process { filter: filter::KEEP, ..Process::default() }, now);
            return None;
        }
        if entry.published.as_ref().is_some_and(|published| published.awaits) {
            entry.awaited = entry.awaited.saturating_add(1);
            entry.is_changed |= !entry.awaits_runtime(now);
        }
        let raw_budget = entry.raw_budget(now);
        let process = match &entry.published {
            Some(published) if !entry.is_changed => Process { raw_budget, ..published.process },
            _ => return self.republish(pid, now),
        };
        self.set_process(pid, &process, now);
        Some(process)
    }

    /// Publishes the processes that changed and were sampled. Called at the end of a batch, which has all samples from before its
    /// beginning.
    pub fn publish_changed(&mut self, now: u64) {
        self.publisher.end_batch(&mut self.modules, now);
        self.retry_table(now);
        if self.is_over() {
            // Nothing is sampled any more.
            return;
        }
        for pid in self.processes.take_due() {
            let Some(entry) = self.processes.get(pid) else { continue };
            if entry.published.is_some() && entry.is_changed && self.republish(pid, now).is_none() {
                self.processes.mark_due(pid);
            }
        }
    }

    /// Checks a stack that the kernel side walked: by a state of the process, and through no mapping that was replaced since.
    ///
    /// # Errors
    ///
    /// Returns the reason if the stack must be dropped. The process is published then, so that the next one is right.
    pub fn check_walk(&mut self, tick: &TickRecord<'_>) -> Result<(), Stop> {
        let (pid, now) = (tick.pid, tick.time);
        let Some(entry) = self.processes.get_mut(pid).filter(|entry| entry.published.is_some()) else {
            let is_new = self.processes.is_after_exec(pid, now);
            if !is_new {
                self.publish(pid, now);
            }
            // The registers are those of the program that the process was before.
            return Err(if is_new { Stop::Exec } else { self.processes.stop_of(pid) });
        };
        entry.sampled = entry.sampled.max(now);
        let sample = SampleId { time: now, cpu: tick.cpu, tid: tick.tid };
        let recorded = self.namer.journal.recall_outdated(sample);
        let is_outdated = recorded.unwrap_or_else(|| entry.is_outdated(tick, self.publisher.batch()));
        if is_outdated {
            self.namer.journal.record_outdated(sample);
            self.stats.outdated_walks += 1;
            self.set_published(pid, now);
        }
        let Some(entry) = self.processes.get(pid) else { return Err(Stop::UnknownProcess) };
        let retries = entry.unopened.is_some_and(|(at, _)| at <= now) || entry.labels.are_waiting(now);
        let retries = retries && entry.next_publish <= now;
        if entry.is_changed {
            let is_postponed = now < entry.next_publish && tick.stop != Stop::Root;
            self.processes.mark_due(pid);
            return match (is_postponed, is_outdated) {
                (true, _) => Err(Stop::TooManyMappings),
                (_, true) => Err(Stop::Outdated),
                _ => Ok(()),
            };
        }
        if is_outdated {
            return Err(Stop::Outdated);
        }
        if self.verify(pid, now) {
            self.processes.mark_due(pid);
            return Err(Stop::UnknownProcess);
        }
        if retries {
            self.processes.republish_later(pid);
        }
        self.update_context(pid, now);
        Ok(())
    }

    /// Publishes a process again, unless it was published too recently.
    pub(super) fn republish(&mut self, pid: u32, now: u64) -> Option<Process> {
        let entry = self.processes.get_mut(pid)?;
        if now < entry.next_publish {
            return None;
        }
        if !self.publisher.allow(entry.regions.len(), now) {
            entry.next_publish = now.saturating_add(NO_WAIT);
            return None;
        }
        let was_published = self.withdraw(pid);
        let process = self.write_mappings(pid, now);
        match &process {
            Some(process) => self.set_process(pid, process, now),
            // The former state lies where other data will lie soon.
            None if was_published => self.publisher.remove_process(pid),
            None => {}
        }
        process
    }

    /// Publishes the present state once more: the kernel side may have another.
    fn set_published(&mut self, pid: u32, now: u64) {
        let published = self.processes.get(pid).and_then(|entry| entry.published.clone());
        if let Some(published) = published {
            self.set_process(pid, &published.process, now);
        }
    }

    fn set_process(&mut self, pid: u32, process: &Process, now: u64) {
        let mut result = self.publisher.set_process(pid, process);
        if result.is_err() && self.withdraw_idle(now) {
            result = self.publisher.set_process(pid, process);
        }
        if result.is_err() {
            *self.stats.without_table.entry("processes beyond what the kernel side knows").or_default() += 1;
        }
    }

    /// Writes the mappings of a process into the arena.
    fn write_mappings(&mut self, pid: u32, now: u64) -> Option<Process> {
        let opened = self.resolve(pid, now);
        self.discover_runtimes(pid, now);
        self.discover_labels(pid, now);
        if self.publisher.mappings() + self.processes.get(pid)?.regions.len() > self.processes.limits.regions
        {
            self.evict(now);
        }
        let entry = self.processes.get_mut(pid)?;
        entry.next_publish = next_publish(entry.regions.len(), opened, now);
        let system = &*self.system;
        let memory =
            |address: u64, buffer: &mut [u8]| system.read(pid, address, buffer).map_err(|_| Unreadable);
        let encoded = Encoded::new(entry, &self.modules, &memory, now)?;
        let places = self.publisher.write(&encoded, now)?;
        if encoded.is_cut {
            self.processes.mark_exceeding(pid);
        }
        let entry = self.processes.get_mut(pid)?;
        Some(self.publisher.publish(entry, encoded, places, &mut self.modules, now))
    }

    /// Withdraws the published state of a process. Returns `true` if there was one.
    pub(super) fn withdraw(&mut self, pid: u32) -> bool {
        self.processes.get_mut(pid).is_some_and(|entry| self.publisher.withdraw(entry))
    }

    /// Withdraws the published state of a process, and removes it from the map of processes.
    pub(super) fn unpublish(&mut self, pid: u32) {
        if self.withdraw(pid) {
            self.publisher.remove_process(pid);
        }
    }

    /// Finds the files of all regions. Returns the number of files that were opened for the first time, or in vain.
    pub(super) fn resolve(&mut self, pid: u32, now: u64) -> usize {
        let Registry { processes, modules, system, publisher, .. } = self;
        let Processes { entries, limits, .. } = processes;
        let Some(entry) = entries.get_mut(&pid) else { return 0 };
        let mut tried: HashMap<*const _, Option<ModuleId>> = HashMap::new();
        let mut opened = 0;
        let mut exceeds = false;
        entry.regions.resolve(|region| {
            let is_known = region.file.is_some_and(|file| modules.get(file.module).is_some());
            if is_known || region.is_anonymous() {
                return None;
            }
            let id = *tried.entry(Arc::as_ptr(&region.name)).or_insert_with(|| {
                if let Some(id) = modules.known(region) {
                    modules.return_to(id, || system.opener(pid, &region.map()));
                    return Some(id);
                }
                if opened >= limits.files || !modules.make_room(limits.modules, now, &mut publisher.arena) {
                    exceeds = true;
                    return None;
                }
                opened += 1;
                modules.add(pid, region, &**system)
            });
            // A module that is gone leaves the region without a file.
            let gone = || region.file.map(|_| Mapped { module: ModuleId(u32::MAX), bias: LoadBias::ZERO });
            id.and_then(|id| modules.place(id, region, now)).or_else(gone)
        });
        entry.exceeds |= exceeds;
        entry.unopened = tried.values().any(Option::is_none).then(|| {
            let attempts = entry.unopened.map_or(0, |(_, attempts)| attempts);
            (now.saturating_add(retry_after(attempts)), attempts.saturating_add(1))
        });
        opened
    }
}

impl Entry {
    /// Returns `true` if a walk used a state that is none of the process, or passed a mapping that was replaced since.
    fn is_outdated(&self, tick: &TickRecord<'_>, batch: u64) -> bool {
        let Some(current) = self.published.as_ref().map(|published| published.process.epoch) else {
            return true;
        };
        // Without a state nothing was walked.
        let epoch = if tick.epoch == 0 { current } else { tick.epoch };
        let is_known = epoch == current || self.epochs.has_former(epoch, batch);
        !is_known || self.epochs.misled(epoch, |start, end| touches(&tick.body, start..end))
    }

    /// Returns `true` if samples in memory without a file are to wait for a runtime that isn't attached yet.
    pub(super) fn awaits_runtime(&self, now: u64) -> bool {
        self.awaited < MAX_AWAITED && self.interpreters.await_memory(now)
    }

    /// Returns the number of raw samples for want of a mapping that the process is granted.
    pub(super) fn raw_budget(&self, now: u64) -> u32 {
        if self.exceeds {
            return 0;
        }
        if self.awaits_runtime(now) || self.interpreters.own_memory() {
            return RUNTIME_BUDGET;
        }
        if self.executed.is_some_and(|at| now.saturating_sub(at) < LOADING) {
            LOADING_BUDGET
        } else {
            RAW_BUDGET
        }
    }
}

/// Returns `true` if a native frame lies in `addresses`, or may do so because it was dropped.
fn touches(body: &Body<'_>, addresses: Range<u64>) -> bool {
    let Body::Walked { leaf, root, omitted } = body else { return false };
    let words = leaf.iter().chain(root[0]).chain(root[1]).map(|&word| FrameWord(word));
    let mut frames = words.filter(|word| word.is_native());
    *omitted > 0 || frames.any(|word| addresses.contains(&word.address()))
}

/// Returns the time from which on a process may be published again, by the number of its mappings, and of the files that
/// were opened for it.
fn next_publish(mappings: usize, opened: usize, now: u64) -> u64 {
    // The first time is free: a program that begins is published while it loads its libraries.
    let wait = mappings as u64 * MAPPING_WAIT + opened as u64 * FILE_WAIT;
    if wait < NO_WAIT { now } else { now.saturating_add(wait) }
}

/// Raw samples for want of a mapping that a process is granted each time that it is published.
const RAW_BUDGET: u32 = 16;

/// The same for a process with a runtime that owns memory: its program may be loaded meanwhile.
const RUNTIME_BUDGET: u32 = 1024;

/// The same for a process that executed its program just now: user space may build the tables of other files while it maps its own.
const LOADING_BUDGET: u32 = 256;

/// Time after an exec for which that holds, in nanoseconds.
const LOADING: u64 = 1_000_000_000;

/// Maximum number of raw samples of a process while a runtime is awaited.
const MAX_AWAITED: u32 = 1024;

/// Time until a process is published again, in nanoseconds for each of its mappings.
const MAPPING_WAIT: u64 = 10_000;

/// The same for each file that was opened.
const FILE_WAIT: u64 = 100_000;

/// Waits below this are none, in nanoseconds: ordinary programs are published in every batch.
const NO_WAIT: u64 = 100_000_000;
