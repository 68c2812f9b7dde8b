//! Rules of code without unwind data, derived while nobody waits.
//!
//! ```text
//!   frame in code without unwind data ──► its caller guessed, or not found ──► file counted
//!                                                                               │ hottest first
//!   table with derived rules, in place of the former one ◄── thread, paced ◄────┘
//! ```
//!
//! Not for files with a runtime of a language: their code may follow other rules than those of compiled code.

use std::sync::Arc;

use super::Registry;
use super::builder::{BuildQueue, Done, QueueOwner};
use super::compile::{Failure, Job};
use super::pace::Pace;
use super::table::Table;
use crate::process::ModuleId;
use crate::trace::{Found, Frame};
use crate::unwind::Compiled;

/// Number of guesses from which on rules of a file are derived: a single one may be a wrong turn.
const MIN_GUESSES: u32 = 3;

/// Maximum number of attempts to derive rules of a file that cannot be opened or read.
const MAX_ATTEMPTS: u32 = 8;

/// The thread that derives rules.
pub(super) struct Deriver {
    queue: QueueOwner,
    pace: Arc<Pace>,
}

impl Registry {
    /// Lets a thread that runs `queue` derive rules of files in which callers are guessed.
    #[cfg_attr(
        not(any(feature = "live", test)),
        expect(dead_code, reason = "only a live profiler derives rules")
    )]
    pub(crate) fn derive_with(&mut self, queue: Arc<BuildQueue>, pace: Arc<Pace>) {
        self.deriver = Some(Deriver { queue: QueueOwner::new(queue), pace });
    }

    /// Counts a frame whose caller was guessed, or not found, for want of unwind data.
    pub(super) fn count_guess(&mut self, id: ModuleId) {
        let Some(Deriver { queue, pace }) = &self.deriver else { return };
        let Some(compiler) = &self.compiler else { return };
        let Some(entry) = self.modules.get_mut(id) else { return };
        if entry.derivation.is_done || entry.table.may_come() || !entry.is_elf() {
            return;
        }
        if !entry.runtimes.is_empty() {
            entry.derivation.is_done = true;
            return;
        }
        entry.derivation.guesses += 1;
        if entry.derivation.guesses < MIN_GUESSES {
            return;
        }
        let (compiler, opener) = (compiler.clone(), entry.module.opener.clone());
        let is_over = queue.end_of_jobs(&self.is_over);
        queue.push(id, || Job { compiler, opener, bare: Vec::new(), is_over, derive: Some(pace.clone()) });
    }

    /// Counts the last frame of a stack that ends for want of unwind data.
    pub(crate) fn count_end(&mut self, last: Option<&Frame>) {
        if let Some(&Frame::Native { module, .. }) = last {
            self.count_guess(module);
        }
    }

    /// Marks a frame as derived if the rule at the address of its callee is.
    pub(super) fn mark_derived(&self, frame: &mut Frame, callee: Option<(ModuleId, u64)>) {
        if !self.has_derived {
            return;
        }
        let Some((id, address)) = callee else { return };
        if let Frame::Native { found, .. } | Frame::Anonymous { found, .. } | Frame::Script { found, .. } =
            frame
            && *found == Found::Exactly
            && self.modules.get(id).is_some_and(|entry| entry.derivation.has(address))
        {
            *found = Found::Derived;
        }
    }

    /// Publishes the tables with derived rules.
    pub(super) fn take_derived(&mut self, now: u64) {
        let Some(Deriver { queue, .. }) = &self.deriver else { return };
        for Done { module, result } in queue.take_done() {
            match result {
                Ok(compiled) => self.use_derived(module, compiled, now),
                Err(failure) => self.fail_derivation(module, failure),
            }
        }
    }

    fn fail_derivation(&mut self, id: ModuleId, failure: Failure) {
        let other = self.other_opener(id);
        let Some(entry) = self.modules.get_mut(id) else { return };
        entry.module.opener = other.or(entry.module.opener.take());
        let derivation = &mut entry.derivation;
        derivation.guesses = 0;
        derivation.failures += 1;
        derivation.is_done = !failure.is_transient || derivation.failures >= MAX_ATTEMPTS;
    }

    /// Replaces the table of a file by one with derived rules, if there are any.
    pub(super) fn use_derived(&mut self, id: ModuleId, compiled: Compiled, now: u64) {
        let Some(entry) = self.modules.get_mut(id) else { return };
        entry.derivation.is_done = true;
        let former = entry.table;
        if compiled.derived.is_empty() || former.may_come() {
            return;
        }
        let Ok(table @ Table::Ready { place, .. }) = self.publisher.arena.write_table(&compiled.image, now)
        else {
            return;
        };
        if let Some(entry) = self.modules.get_mut(id) {
            entry.table = table;
            entry.derivation.ranges = compiled.derived;
        }
        self.has_derived = true;
        self.stats.derived_tables += 1;
        match former {
            // The place alone does not tell the file.
            Table::Ready { place: other, .. } if self.publisher.arena.is_shared(other) => {
                if let Some(entry) = self.modules.get_mut(id) {
                    entry.former = Some(former);
                }
                self.republish_module(id);
            }
            Table::Ready { place: former, bytes } => {
                let published =
                    self.processes.entries.values().filter_map(|entry| entry.published.as_deref());
                self.publisher.move_table(id, (former, place), published);
                self.publisher.arena.free_table(former, bytes, now);
            }
            _ => self.republish_module(id),
        }
    }

    /// Lets the processes that map a file be published again.
    fn republish_module(&mut self, id: ModuleId) {
        for pid in self.processes.pids_where(|entry| entry.has_published(id)) {
            self.processes.republish_later(pid);
        }
    }
}

#[cfg(test)]
mod tests;
