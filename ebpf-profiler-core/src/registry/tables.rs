//! Unwind tables of files: when they are compiled, and published.
//!
//! | file | compiled |
//! | --- | --- |
//! | before sampling starts, or with little code | at once, when the first walk needs the table |
//! | with more code | by a [thread](super::builder), while samples of the file are held |
//! | could not be opened or read | again, through another process that maps it, after 1 s at first and 64 s at last |
//!
//! A file that could not even be opened when it was first mapped is tried again with the next sample of its process, after the
//! same times.

use std::collections::btree_map::Entry as Count;
use std::sync::Arc;
use std::time::Instant;

use super::Registry;
use super::builder::{BuildQueue, Builder, Done, QueueOwner};
use super::compile::{Failure, Job};
use super::limits::retry_after;
use super::modules::Entry;
use super::table::Table;
use crate::process::{ModuleId, Opener};
use crate::unwind::Compiled;

/// Reason for the last files of a profiler.
const NOT_BUILT: &str = "files whose tables were not built before the end";

impl Registry {
    /// Lets a thread that runs `queue` compile the tables of files with at least `min_code` bytes of code.
    #[cfg_attr(
        not(any(feature = "live", test)),
        expect(dead_code, reason = "only a live profiler has threads")
    )]
    pub(crate) fn build_with(&mut self, queue: Arc<BuildQueue>, min_code: u64) {
        self.builder = Some(Builder { queue: QueueOwner::new(queue), min_code });
    }

    /// Builds the table for the file at `address` of a process, unless that was tried before.
    ///
    /// Returns `true` if the kernel side has a new table, or knows now that there is none.
    pub fn build_table(&mut self, pid: u32, address: u64, now: u64) -> bool {
        let Some(id) = self.module_at(pid, address) else { return false };
        self.build_table_of(id, now)
    }

    /// Returns `true` if a thread compiles the table for the file at `address` of a process.
    pub(crate) fn is_building(&self, pid: u32, address: u64) -> bool {
        let Some(builder) = &self.builder else { return false };
        self.module_at(pid, address).is_some_and(|id| builder.queue.has(id))
    }

    fn module_at(&self, pid: u32, address: u64) -> Option<ModuleId> {
        Some(self.processes.file_at(pid, address)?.module)
    }

    fn build_table_of(&mut self, id: ModuleId, now: u64) -> bool {
        let Some(entry) = self.modules.get_mut(id) else { return false };
        if entry.table != Table::Pending || (self.is_over)() {
            return false;
        }
        entry.used = now;
        self.start_build(id, now)
    }

    /// Compiles the table of a file, or lets the thread do it. Returns `true` if its state is another one then.
    fn start_build(&mut self, id: ModuleId, now: u64) -> bool {
        let Some(entry) = self.modules.get(id) else { return false };
        let Some(compiler) = self.compiler.clone() else {
            return self.install(id, Ok(Compiled::default()), now);
        };
        let (opener, bare) = (entry.module.opener.clone(), || entry.bare_functions().to_vec());
        if let Some(Builder { queue, min_code }) = &self.builder
            && entry.code_size() >= *min_code
        {
            let is_over = queue.end_of_jobs(&self.is_over);
            queue.push(id, || Job { compiler, opener, bare: bare(), is_over, derive: None });
            return false;
        }
        let is_over = self.is_over.clone();
        let result = Job { compiler, opener, bare: bare(), is_over, derive: None }.run();
        self.install(id, result, now)
    }

    /// Publishes the tables that the thread has compiled. Returns `true` if there were any.
    pub(crate) fn take_built(&mut self, now: u64) -> bool {
        self.take_derived(now);
        let done = self.builder.as_ref().map(|builder| builder.queue.take_done()).unwrap_or_default();
        let is_changed = !done.is_empty();
        for Done { module, result } in done {
            if self.modules.get(module).is_some_and(|entry| entry.table.may_come()) {
                self.install(module, result, now);
            }
        }
        is_changed
    }

    /// Waits for a table that the thread compiles, until none is to be built any more, and publishes it. Returns `false` if
    /// there is none.
    #[cfg(feature = "live")]
    pub(crate) fn await_built(&mut self, now: u64) -> bool {
        let is_over = self.is_over.clone();
        self.builder.as_ref().is_some_and(|builder| builder.queue.wait(&*is_over)) && self.take_built(now)
    }

    /// Sets the table of a file, or the reason why there is none. Returns `false` if it is still to be built.
    fn install(&mut self, id: ModuleId, result: Result<Compiled, Failure>, now: u64) -> bool {
        match result
            .and_then(|compiled| Ok((self.publisher.arena.write_table(&compiled.image, now)?, compiled)))
        {
            Ok((table, compiled)) => {
                self.stats.tables += 1;
                self.stats.unsupported_rows += u64::from(compiled.unsupported);
                self.set_table(id, table);
            }
            Err(_) if (self.is_over)() => {
                self.count_failure(NOT_BUILT);
                return false;
            }
            Err(failure) => self.fail(id, failure, now),
        }
        if let Some(entry) = self.modules.get_mut(id) {
            self.publisher.publish_table(entry);
        }
        true
    }

    /// Sets a table that was compiled, perhaps after failures.
    fn set_table(&mut self, id: ModuleId, table: Table) {
        let Some(entry) = self.modules.get_mut(id) else { return };
        entry.table = table;
        if let Some((failure, _)) = entry.failed.take()
            && let Count::Occupied(mut count) = self.stats.without_table.entry(failure.reason)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Records that a table failed to build, and when it is tried again.
    fn fail(&mut self, id: ModuleId, failure: Failure, now: u64) {
        let Some(entry) = self.modules.get_mut(id) else { return };
        let failures = entry.failed.map_or(0, |(_, failures)| failures);
        let retry = now.saturating_add(retry_after(failures));
        entry.table = if failure.is_transient { Table::Failed { retry } } else { Table::None };
        let former = entry.failed.replace((failure, failures + 1));
        if former.is_none() && failure.is_transient {
            self.modules.failed.push(id);
        }
        if former.is_none() {
            self.count_failure(failure.reason);
        }
    }

    fn count_failure(&mut self, reason: &'static str) {
        *self.stats.without_table.entry(reason).or_default() += 1;
    }

    /// Builds the tables of all files of a process, as far as that can begin before `end`.
    pub(crate) fn build_tables(&mut self, pid: u32, now: u64, end: Option<Instant>) {
        let published = self.processes.get(pid).and_then(|entry| entry.published.clone());
        for &id in published.iter().flat_map(|published| &published.modules) {
            if end.is_some_and(|end| Instant::now() > end) {
                break;
            }
            self.build_table_of(id, now);
        }
    }

    /// Tries to build one of the tables that failed, through another process that maps the file. Called with each batch.
    pub(super) fn retry_table(&mut self, now: u64) {
        let modules = &self.modules;
        if modules.failed.is_empty() || (self.is_over)() {
            return;
        }
        let retry = |id: &ModuleId| match modules.get(*id).map(|entry| entry.table) {
            Some(Table::Failed { retry }) => Some(retry),
            _ => None,
        };
        let mut failed = modules.failed.clone();
        failed.retain(|id| retry(id).is_some());
        let due = failed.iter().copied().find(|id| retry(id).is_some_and(|at| at <= now));
        self.modules.failed = failed;
        let Some(id) = due else { return };
        if let Some(opener) = self.other_opener(id)
            && let Some(entry) = self.modules.get_mut(id)
        {
            entry.module.opener = Some(opener);
        }
        self.start_build(id, now);
    }

    /// Returns the opener of a process that maps the file of a module. After each failure it is another process.
    pub(super) fn other_opener(&self, id: ModuleId) -> Option<Arc<dyn Opener>> {
        let Entry { module, failed, .. } = self.modules.get(id)?;
        let maps_it = |entry: &super::processes::Entry| entry.ended.is_none() && entry.has_published(id);
        let mut pids = self.processes.pids_where(maps_it);
        pids.sort_unstable();
        let pid = *pids.get(failed.map_or(0, |(_, failures)| failures as usize) % pids.len().max(1))?;
        let regions = &self.processes.get(pid)?.regions;
        let region = regions.iter().find(|region| region.file.is_some_and(|file| file.module == id))?;
        let opener = self.system.opener(pid, &region.map());
        // It proves as much of the file as the former one did.
        (opener.foreign_inode().is_some() == module.is_foreign).then_some(opener)
    }
}

#[cfg(test)]
mod tests;
