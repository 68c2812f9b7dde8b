//! The processes of the machine: their life, and what is kept about each.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::contexts::EntryContext;
use super::epochs::Epochs;
use super::labels::ProcessLabels;
use super::limits::{Limits, MAX_MAPPINGS, ReadLimit};
use super::names::Names;
use super::published::Published;
use crate::jit::JitNames;
use crate::language::Interpreters;
use crate::process::{Description, Mapped, ModuleId, Pids, RegionCount, Regions};
use crate::trace::Stop;

/// Maximum size of what may be the stack above a stack pointer, in bytes.
const MAX_STACK: u64 = 16 << 20;

/// Time between the end of a process's first thread and the check for others, in nanoseconds. Doubles with each check.
const LINGER_TIME: u64 = 1_000_000_000;

/// The longest time between two such checks, in nanoseconds.
const MAX_LINGER_TIME: u64 = 32_000_000_000;

/// Time at most between an exec and the last sample that was walked before it, in nanoseconds.
const EXEC_TIME: u64 = 1_000_000_000;

/// The processes of the machine, with their bounds.
#[derive(Default)]
pub(crate) struct Processes {
    pub(super) entries: HashMap<u32, Entry>,
    /// Processes whose first thread ended, with the time of that or of the last check for other threads.
    leaving: VecDeque<(u64, u32)>,
    /// The processes to sample, with those that they fork; `None` for all.
    selected: Option<HashSet<u32>>,
    pub(super) limits: Limits,
    pub(super) names: Names,
    /// Descriptions that were read when the batch began.
    pub(super) described: HashMap<u32, Description>,
    pub(super) region_count: RegionCount,
    /// Processes to look at when the batch ends.
    due: Vec<u32>,
    /// Time of the last lost life event: what was known before is to be verified.
    pub(super) lost: u64,
    /// Value of `lost` at the last search for processes that are gone.
    pub(super) swept: u64,
    /// Number of processes that exceeded their share of the limits.
    pub(super) exceeding: u64,
}

/// One process.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) regions: Regions,
    /// `true` if `regions` are all executable mappings: read from the system, or followed from an exec or a fork on.
    pub(super) is_complete: bool,
    /// `true` if there are mappings that `regions` has no room for.
    pub(super) exceeds: bool,
    /// The state in the kernel maps.
    pub(super) published: Option<Arc<Published>>,
    pub(super) epochs: Epochs,
    /// `true` if `regions` changed after that was published.
    pub(super) is_changed: bool,
    /// `true` if it is among [`Processes::due`].
    is_due: bool,
    /// Time from which on it may be published again.
    pub(super) next_publish: u64,
    /// Time as of which `regions` were complete.
    pub(super) verified: u64,
    pub(super) read_limit: ReadLimit,
    /// For the search for interpreters that were unloaded.
    pub(super) unload_limit: ReadLimit,
    /// Time when files that could not be opened are tried again, and the number of attempts.
    pub(super) unopened: Option<(u64, u32)>,
    /// Number of file names that the process brought.
    pub(super) names: usize,
    /// Number of raw samples taken while a runtime was awaited.
    pub(super) awaited: u32,
    /// Time of the last sample.
    pub(super) sampled: u64,
    /// Time of the last exec.
    pub(super) executed: Option<u64>,
    pub(super) interpreters: Interpreters,
    pub(super) labels: ProcessLabels,
    /// Not of a forked process: its memory does not have the mapping.
    pub(super) context: EntryContext,
    pub(super) jit: JitNames,
    pub(super) description: Option<Description>,
    /// Time when that was read.
    pub(super) described: u64,
    /// Its parent, if it has executed no program since the fork.
    pub(super) forked_by: Option<u32>,
    /// Time when its first thread ended, or of the last check for other threads after that.
    pub(super) ended: Option<u64>,
    /// Time until the next such check.
    linger: u64,
}

impl Entry {
    /// Returns a process that `parent` forked, which has the same memory.
    fn fork(&self, parent: u32) -> Entry {
        Entry {
            regions: self.regions.clone(),
            is_complete: self.is_complete,
            exceeds: self.exceeds,
            published: self.published.clone(),
            epochs: self.epochs.clone(),
            is_changed: self.is_changed,
            next_publish: self.next_publish,
            verified: self.verified,
            names: self.names,
            unopened: self.unopened,
            interpreters: self.interpreters.fork(parent),
            labels: self.labels.clone(),
            jit: self.jit.fork(),
            ..Entry::default()
        }
    }

    /// Returns `true` if the published state maps the file of a module.
    pub(super) fn has_published(&self, id: ModuleId) -> bool {
        self.published.as_ref().is_some_and(|published| published.has(id))
    }
}

impl Processes {
    pub(super) fn get(&self, pid: u32) -> Option<&Entry> {
        self.entries.get(&pid)
    }

    pub(super) fn get_mut(&mut self, pid: u32) -> Option<&mut Entry> {
        self.entries.get_mut(&pid)
    }

    /// Returns a process, which is new if it is not known.
    pub(super) fn entry(&mut self, pid: u32) -> &mut Entry {
        self.entries.entry(pid).or_default()
    }

    /// Returns the processes that fulfil a condition.
    pub(super) fn pids_where(&self, condition: impl Fn(&Entry) -> bool) -> Vec<u32> {
        self.entries.iter().filter(|(_, entry)| condition(entry)).map(|(&pid, _)| pid).collect()
    }

    /// Returns the bounds.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn set_limits(&mut self, limits: Limits) {
        let mappings = limits.mappings.min(MAX_MAPPINGS);
        self.limits = Limits { mappings, ..limits };
    }

    /// Selects processes for samples, with what they fork.
    pub(super) fn select(&mut self, pids: &Pids) {
        self.selected = pids.only().map(|pids| pids.iter().copied().collect());
    }

    /// Returns the selected processes that have not exited; `None` if all are selected.
    pub(crate) fn selected(&self) -> Option<impl Iterator<Item = u32> + '_> {
        self.selected.as_ref().map(|selected| selected.iter().copied())
    }

    pub(super) fn is_selected(&self, pid: u32) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.contains(&pid))
    }

    /// Deselects the processes that do not fulfil a condition.
    pub(super) fn keep_selected(&mut self, condition: impl Fn(u32) -> bool) {
        if let Some(selected) = &mut self.selected {
            selected.retain(|&pid| condition(pid));
        }
    }

    /// Adds a process that `parent` forked.
    pub(super) fn fork(&mut self, pid: u32, parent: u32) -> &Entry {
        if let Some(selected) = &mut self.selected {
            // A selected process may have had this id before.
            if selected.contains(&parent) {
                selected.insert(pid)
            } else {
                selected.remove(&pid)
            };
        }
        let inherited = self.get(parent).map(|entry| entry.fork(parent)).unwrap_or_default();
        self.entries.insert(pid, Entry { forked_by: Some(parent), ..inherited });
        &self.entries[&pid]
    }

    /// Adds a process that executes a program.
    pub(super) fn execute(&mut self, pid: u32, time: u64) {
        let entry = Entry { is_complete: true, executed: Some(time), verified: time, ..Entry::default() };
        self.entries.insert(pid, entry);
    }

    /// Records the end of a process's first thread.
    pub(super) fn end(&mut self, pid: u32, time: u64) {
        if let Some(entry) = self.entries.get_mut(&pid) {
            entry.ended = Some(time);
            entry.linger = LINGER_TIME;
            self.leaving.push_back((time.saturating_add(LINGER_TIME), pid));
        }
    }

    /// Takes a process whose first thread ended, if it is to be checked for other threads by now.
    pub(super) fn take_leaving(&mut self, now: u64) -> Option<u32> {
        while let Some(&(at, pid)) = self.leaving.front().filter(|(at, _)| *at <= now) {
            self.leaving.pop_front();
            // The id may belong to another process by now.
            let is_it =
                |entry: &Entry| entry.ended.is_some_and(|ended| ended.saturating_add(entry.linger) == at);
            if self.get(pid).is_some_and(is_it) {
                return Some(pid);
            }
        }
        None
    }

    /// Checks a process again later: other threads of it run on, and their end sends no event.
    pub(super) fn linger(&mut self, pid: u32, now: u64) {
        let Some(entry) = self.entries.get_mut(&pid) else { return };
        entry.linger = (entry.linger * 2).min(MAX_LINGER_TIME);
        entry.ended = Some(now);
        let at = now.saturating_add(entry.linger);
        let next = self.leaving.partition_point(|&(other, _)| other <= at);
        self.leaving.insert(next, (at, pid));
    }

    /// Takes the processes that are due.
    pub(super) fn take_due(&mut self) -> Vec<u32> {
        let due = std::mem::take(&mut self.due);
        for &pid in &due {
            if let Some(entry) = self.get_mut(pid) {
                entry.is_due = false;
            }
        }
        due
    }

    /// Makes a published process due at the end of the batch.
    pub(super) fn mark_due(&mut self, pid: u32) {
        if let Some(entry) = self.entries.get_mut(&pid)
            && entry.published.is_some()
            && !std::mem::replace(&mut entry.is_due, true)
        {
            self.due.push(pid);
        }
    }

    /// Lets a process be published again, although its mappings are the same.
    pub(super) fn republish_later(&mut self, pid: u32) {
        if let Some(entry) = self.get_mut(pid) {
            entry.is_changed = true;
        }
        self.mark_due(pid);
    }

    pub(super) fn mark_exceeding(&mut self, pid: u32) {
        if let Some(entry) = self.entries.get_mut(&pid)
            && !std::mem::replace(&mut entry.exceeds, true)
        {
            self.exceeding += 1;
        }
    }

    /// Returns `true` if mappings of a process are missing because it has too many.
    pub(crate) fn exceeds(&self, pid: u32) -> bool {
        self.get(pid).is_some_and(|entry| entry.exceeds)
    }

    /// Returns `true` if a process executed its program within the last second.
    pub(crate) fn is_after_exec(&self, pid: u32, now: u64) -> bool {
        let is_after = |entry: &Entry| entry.executed.is_some_and(|at| now.saturating_sub(at) < EXEC_TIME);
        self.get(pid).is_some_and(is_after)
    }

    /// Returns the reason for which a process is not published.
    pub(crate) fn stop_of(&self, pid: u32) -> Stop {
        match self.get(pid) {
            Some(entry) if entry.exceeds || entry.is_changed => Stop::TooManyMappings,
            _ => Stop::UnknownProcess,
        }
    }

    /// Returns the end of what may be the stack around `address`: 16 MiB above, or the next code.
    pub(crate) fn stack_end(&self, pid: u32, address: u64) -> u64 {
        let next = self.get(pid).and_then(|entry| entry.regions.start_above(address));
        address.saturating_add(MAX_STACK).min(next.unwrap_or(u64::MAX))
    }

    /// Returns the file at an address of a process.
    pub(super) fn file_at(&self, pid: u32, address: u64) -> Option<Mapped> {
        self.get(pid)?.regions.find(address)?.file
    }

    /// Returns `true` if an address lies in the file of the process's first interpreter.
    pub(crate) fn is_of_first_interpreter(&self, pid: u32, address: u64) -> bool {
        let has_first = |file| self.get(pid).is_some_and(|entry| entry.interpreters.has_first(file));
        self.file_at(pid, address).is_some_and(has_first)
    }

    /// Returns `true` if a runtime of a process waits to be attached.
    pub(super) fn waits_for_runtime(&self, pid: u32, now: u64) -> bool {
        self.get(pid).is_some_and(|entry| entry.interpreters.are_waiting(now))
    }

    /// Drops the names of all interpreters and of JIT-compiled code.
    pub(super) fn forget_names(&mut self) {
        for entry in self.entries.values_mut() {
            entry.interpreters.forget_names();
            entry.jit.forget_frames();
        }
    }
}
