//! The states of processes that the kernel side has: written, replaced, withdrawn and freed.
//!
//! ```text
//!   Encoded ──► arena: mappings, interpreters ──► map of processes ──► withdrawn ──► freed
//!                      Published, with an epoch                        walks arrive
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use ebpf_programs::abi::arena::UNIT;
use ebpf_programs::abi::mapping::{Mapping, Process, filter, kind};
use hashbrown::HashSet;

use super::arena::Arena;
use super::encode::{Encoded, Pending};
use super::epochs;
use super::limits::PublishLimit;
use super::modules::{self, Modules};
use super::processes::Entry;
use super::published::Published;
use crate::process::ModuleId;
use crate::tables::{Full, Tables};

/// Maximum number of processes whose samples the kernel side drops.
const MAX_DROPPED: usize = 1 << 14;

/// Writes the states of processes into the kernel maps, and knows what is there.
pub(super) struct Publisher {
    pub(super) arena: Arena,
    /// Processes whose samples the kernel side drops.
    dropped: HashSet<u32>,
    /// Epoch of the last published state.
    epoch: u32,
    /// Number of batches that ended.
    batch: u64,
    /// Withdrawn states, with the last batches that were read by then: walks may still use them.
    withdrawn: VecDeque<(u64, Arc<Published>)>,
    /// Mappings in the arena.
    mappings: usize,
    limit: PublishLimit,
    /// Returns the number of batches that were read and not taken yet.
    waiting: Box<dyn Fn() -> u64 + Send>,
}

/// Places in the arena of what was encoded for a process.
#[derive(Clone, Copy)]
pub(super) struct Places {
    mappings: u32,
    interpreters: u32,
    /// Plus 1; 0 for none.
    labels: u32,
}

impl Publisher {
    /// Returns a publisher whose tables and mappings take at most `bytes` of the arena.
    pub(super) fn new(tables: Box<dyn Tables>, bytes: u64) -> Publisher {
        Publisher {
            arena: Arena::new(tables, bytes),
            dropped: HashSet::new(),
            epoch: 0,
            batch: 0,
            withdrawn: VecDeque::new(),
            mappings: 0,
            limit: PublishLimit::default(),
            waiting: Box::new(|| 0),
        }
    }

    /// Asks `waiting` how many batches were read and not taken yet, where they are read ahead.
    #[cfg(feature = "live")]
    pub(super) fn read_ahead(&mut self, waiting: impl Fn() -> u64 + Send + 'static) {
        self.waiting = Box::new(waiting);
    }

    /// Returns the number of batches that ended.
    pub(super) fn batch(&self) -> u64 {
        self.batch
    }

    /// Returns the epoch of the state that is published next.
    pub(super) fn next_epoch(&self) -> u32 {
        epochs::next(self.epoch)
    }

    /// Returns the number of mappings in the arena.
    pub(super) fn mappings(&self) -> usize {
        self.mappings
    }

    /// Returns `true` if `count` mappings may be published at `now`, and accounts for them.
    pub(super) fn allow(&mut self, count: usize, now: u64) -> bool {
        self.limit.allow(count, now)
    }

    /// Sets the state of a process in the map of processes.
    pub(super) fn set_process(&mut self, pid: u32, process: &Process) -> Result<(), Full> {
        self.arena.tables.set_process(pid, process)
    }

    /// Sets the state of a forked process, if the kernel side gave it one.
    pub(super) fn replace_process(&mut self, pid: u32, process: &Process) {
        self.arena.tables.replace_process(pid, process);
    }

    /// Removes a process from the map of processes.
    pub(super) fn remove_process(&mut self, pid: u32) {
        self.arena.tables.remove_process(pid);
    }

    /// Makes the kernel side drop the samples of a process, if there is room for that.
    pub(super) fn drop_samples(&mut self, pid: u32) {
        if self.dropped.len() < MAX_DROPPED || self.dropped.contains(&pid) {
            self.dropped.insert(pid);
            let process = Process { filter: filter::DROP, ..Process::default() };
            let _ = self.set_process(pid, &process);
        }
    }

    /// Records that a process executes or ends: the kernel side itself forgets it then.
    pub(super) fn forget_dropped(&mut self, pid: u32) {
        self.dropped.remove(&pid);
    }

    /// Lets samples of all processes arrive. Processes that were dropped are published again when
    /// they are next sampled.
    pub(super) fn drop_no_samples(&mut self) {
        for pid in self.dropped.drain() {
            self.arena.tables.remove_process(pid);
        }
    }

    /// Writes the mappings and interpreters of a process into the arena; `None` if there is no room.
    pub(super) fn write(&mut self, encoded: &Encoded, now: u64) -> Option<Places> {
        self.arena.tables.need_walkers(encoded.walkers);
        let Encoded { mappings, interpreters, labels, .. } = encoded;
        let mut written = Vec::new();
        for bytes in [mappings, interpreters, labels] {
            match if bytes.is_empty() { Some(0) } else { self.arena.write(bytes, now) } {
                Some(place) => written.push((place, bytes.len())),
                None => {
                    let some = written.into_iter().filter(|(_, bytes)| *bytes > 0);
                    some.for_each(|(place, bytes)| self.arena.free(place, bytes, now));
                    return None;
                }
            }
        }
        let &[(mappings, _), (interpreters, _), (labels, bytes)] = written.as_slice() else { return None };
        Some(Places { mappings, interpreters, labels: if bytes > 0 { labels + 1 } else { 0 } })
    }

    /// Makes what was written the published state of a process, and returns it for the map of
    /// processes.
    pub(super) fn publish(
        &mut self,
        entry: &mut Entry,
        encoded: Encoded,
        Places { mappings, interpreters, labels }: Places,
        modules: &mut Modules,
        now: u64,
    ) -> Process {
        self.epoch = self.next_epoch();
        let process = Process {
            mappings,
            count: encoded.count(),
            raw_budget: entry.raw_budget(now),
            filter: filter::KEEP,
            interpreters,
            names: entry.interpreters.names_version(),
            epoch: self.epoch,
            labels,
        };
        let Encoded { modules: ids, awaits, interpreters: described, labels, pending, .. } = encoded;
        let (described, labels) = (described.len(), labels.len());
        let published = Arc::new(Published { process, awaits, described, labels, modules: ids });
        self.mappings += process.count as usize;
        for &id in &published.modules {
            modules.acquire(id, now);
        }
        for Pending { module, index, interpreter } in pending {
            if let Some(module) = modules.get_mut(module) {
                module.wait(&published, index, interpreter);
            }
        }
        entry.published = Some(published);
        entry.is_changed = false;
        entry.labels.published(self.epoch);
        process
    }

    /// Withdraws the published state of a process. Returns `true` if there was one.
    pub(super) fn withdraw(&mut self, entry: &mut Entry) -> bool {
        let read = self.batch + (self.waiting)();
        let Some(published) = entry.published.take() else { return false };
        entry.epochs.withdraw(published.process.epoch, self.batch, read);
        if Arc::strong_count(&published) == 1 {
            // No other process shares it.
            self.mappings -= published.process.count as usize;
            self.withdrawn.push_back((read, published));
        }
        true
    }

    /// Ends a batch: frees the states that no walk uses any more, those of children that were forked
    /// before they were withdrawn, too.
    pub(super) fn end_batch(&mut self, modules: &mut Modules, now: u64) {
        self.batch += 1;
        while let Some((batch, _)) = self.withdrawn.front()
            && batch + epochs::UNUSED <= self.batch
            && let Some((_, published)) = self.withdrawn.pop_front()
        {
            self.arena.free(published.process.mappings, published.mapped(), now);
            if published.described > 0 {
                self.arena.free(published.process.interpreters, published.described, now);
            }
            if published.labels > 0 {
                self.arena.free(published.process.labels - 1, published.labels, now);
            }
            for &id in &published.modules {
                modules.release(id, now);
            }
        }
    }

    /// Writes the place of a module's table into the published mappings that wait for it.
    pub(super) fn publish_table(&mut self, module: &mut modules::Entry) {
        let (place, kind) = module.table.words();
        let may_come = module.table.may_come();
        for waiting in module.take_waiting() {
            let Some(published) = waiting.published.upgrade() else { continue };
            let at = offset_of_table(published.process.mappings, waiting.index);
            self.set_table(at, (place, kind), waiting.interpreter);
            if may_come {
                module.wait(&published, waiting.index, waiting.interpreter);
            }
        }
    }

    /// Replaces the place of a module's table in all states that walks may use: these, and the
    /// withdrawn ones.
    pub(super) fn move_table<'a>(
        &mut self,
        id: ModuleId,
        (former, place): (u32, u32),
        published: impl Iterator<Item = &'a Published>,
    ) {
        let mappings_of =
            |state: &Published| state.has(id).then_some((state.process.mappings, state.process.count));
        let mut states: HashSet<(u32, u32)> = published.filter_map(mappings_of).collect();
        states.extend(self.withdrawn.iter().filter_map(|(_, state)| mappings_of(state)));
        let mappings =
            states.into_iter().flat_map(|(mappings, count)| (0..count).map(move |index| (mappings, index)));
        for (mappings, index) in mappings {
            let at = offset_of_table(mappings, index);
            if let Some(interpreter) = self.interpreter_with(at, former) {
                self.set_table(at, (place, kind::TABLE), interpreter);
            }
        }
    }

    /// Returns the interpreter of a mapping whose table, at an offset in the arena, has this place.
    fn interpreter_with(&self, at: u64, table: u32) -> Option<u16> {
        match self.arena.tables.piece((at / 4) as u32) {
            Some(&[place, kinds, ..]) if place == table && kinds as u16 == kind::TABLE => {
                Some((kinds >> 16) as u16)
            }
            _ => None,
        }
    }

    /// Sets the table of a published mapping.
    fn set_table(&mut self, at: u64, (place, kind): (u32, u16), interpreter: u16) {
        let words = u64::from(place) | u64::from(kind) << 32 | u64::from(interpreter) << 48;
        // Written before, so the room is there.
        let _ = self.arena.tables.write(at, &words.to_ne_bytes());
    }

    #[cfg(test)]
    pub(super) fn withdrawn(&self) -> impl Iterator<Item = &Arc<Published>> {
        self.withdrawn.iter().map(|(_, state)| state)
    }
}

/// Returns the offset in the arena at which a mapping has its table, by the place of the first one.
fn offset_of_table(mappings: u32, index: u32) -> u64 {
    let offset = index as usize * size_of::<Mapping>() + core::mem::offset_of!(Mapping, table);
    u64::from(mappings) * UNIT as u64 + offset as u64
}
