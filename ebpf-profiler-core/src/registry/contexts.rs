//! Contexts that processes publish: attributes of the process, and the keys of thread contexts.
//!
//! A program publishes its context at any time, and may replace it. Neither is an event, so processes are looked at when they are
//! sampled: less and less often while they have none, once a second then, and at once for a key that is not known.

use std::sync::Arc;

use super::Registry;
use super::labels::ProcessLabels;
use crate::process::context::{self, Failure, ProcessContext, Published};

/// Time after the first search for a context, in nanoseconds; doubles with each.
const FIRST_DELAY: u64 = 50_000_000;

/// Maximum number of doublings: about 13 s between searches.
const MAX_DOUBLINGS: u32 = 8;

/// Time between reads of a context that is known, in nanoseconds.
const REFRESH_INTERVAL: u64 = 1_000_000_000;

/// Minimum time between reads because of keys that are not known, in nanoseconds.
const KEY_INTERVAL: u64 = 5_000_000;

/// Maximum number of such reads between two that are due: a process may change its context all the time.
const MAX_KEY_READS: u32 = 20;

/// The contexts of all processes.
#[derive(Default)]
pub(super) struct Contexts {
    /// `true` if attributes of contexts are those of processes.
    are_shown: bool,
    /// Number of the last context that was read.
    last: u64,
}

/// The context of one process.
#[derive(Default)]
pub(super) struct EntryContext {
    /// Address of its header.
    address: Option<u64>,
    published: Option<(u64, Arc<Published>)>,
    /// Time of the next search or read.
    next: u64,
    /// Time of the last read because of a key.
    asked: u64,
    /// Number of such reads since the last one that was due.
    key_reads: u32,
    searches: u32,
}

impl EntryContext {
    fn context(&self) -> Option<&ProcessContext> {
        self.published.as_ref().map(|(_, published)| &published.context)
    }

    /// Returns `true` if threads have contexts at a thread-local variable.
    pub(super) fn has_thread_contexts(&self) -> bool {
        self.context().is_some_and(ProcessContext::has_thread_contexts)
    }
}

impl Registry {
    /// Adds the attributes of process contexts to processes.
    #[cfg(any(feature = "live", test))]
    pub(crate) fn show_contexts(&mut self) {
        self.contexts.are_shown = true;
    }

    /// Returns the attributes that a process has published.
    pub(crate) fn attributes(&self, pid: u32) -> &[(Box<str>, Box<str>)] {
        let context = self.processes.get(pid).and_then(|entry| entry.context.context());
        context.filter(|_| self.contexts.are_shown).map_or(&[], |context| &context.attributes)
    }

    /// Returns the number of a process's context among all, and the keys of its thread contexts.
    pub(crate) fn context_keys(&self, pid: u32) -> Option<(u64, Arc<[Arc<str>]>)> {
        let (number, published) = self.processes.get(pid)?.context.published.as_ref()?;
        Some((*number, published.context.keys.clone()))
    }

    /// Reads the context of a process again, for a key that it lacks. A limited number of times per second.
    pub(crate) fn refresh_context(&mut self, pid: u32, now: u64) {
        let Some(entry) = self.processes.get_mut(pid) else { return };
        let EntryContext { asked, key_reads, next, .. } = &mut entry.context;
        if now.saturating_sub(*asked) >= KEY_INTERVAL && *key_reads < MAX_KEY_READS {
            let due = *next;
            (*asked, *key_reads) = (now, *key_reads + 1);
            self.read_context(pid, now);
            if let Some(entry) = self.processes.get_mut(pid) {
                entry.context.next = due;
            }
        }
    }

    /// Reads the context of a process if that is due.
    pub(super) fn update_context(&mut self, pid: u32, now: u64) {
        let is_wanted = self.contexts.are_shown || self.modules.have_label_sources();
        let Some(entry) = self.processes.get_mut(pid).filter(|_| is_wanted) else { return };
        if entry.context.next <= now {
            entry.context.key_reads = 0;
            self.read_context(pid, now);
        }
    }

    fn read_context(&mut self, pid: u32, now: u64) {
        let Registry { processes, system, stats, contexts, .. } = self;
        let Some(entry) = processes.get_mut(pid) else { return };
        let had_threads = entry.context.has_thread_contexts();
        let state = &mut entry.context;
        state.next = now.saturating_add(REFRESH_INTERVAL);
        let memory = |address: u64, buffer: &mut [u8]| system.read(pid, address, buffer).is_ok();
        let known = state.published.as_ref().map(|(_, published)| published.time);
        let mut read = |address: u64| match context::read(&memory, address, known) {
            Ok(Some(published)) => {
                contexts.last += 1;
                stats.contexts += 1;
                state.published = Some((contexts.last, Arc::new(published)));
                true
            }
            Ok(None) => true,
            Err(Failure::Absent) => false,
            Err(failure) => {
                if failure == Failure::Changing {
                    state.next = now.saturating_add(FIRST_DELAY);
                }
                *stats.context_failures.entry(failure.text()).or_default() += 1;
                true
            }
        };
        if !state.address.is_some_and(&mut read) {
            let found = system.contexts(pid).into_iter().find(|&address| read(address));
            state.address = found;
            if found.is_none() {
                state.next = now.saturating_add(FIRST_DELAY << state.searches.min(MAX_DOUBLINGS));
                state.searches += 1;
            }
        }
        if entry.context.has_thread_contexts() != had_threads {
            entry.labels = ProcessLabels::default();
            self.processes.republish_later(pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::System;
    use crate::sample::{Life, LifeEvent};
    use crate::tables::MemoryTables;
    use crate::testing::FakeSystem;

    const PID: u32 = 7;

    /// Returns a machine with a process whose context was published at a time and has one attribute.
    fn machine(time: u64, value: &str) -> Box<dyn System> {
        let size = value.len() as u8;
        let value = [&[10, size][..], value.as_bytes()].concat();
        let pair = [&[10, 1, b'k', 18, size + 2][..], &value].concat();
        let resource = [&[10, pair.len() as u8][..], &pair].concat();
        let payload = [&[10, resource.len() as u8][..], &resource].concat();
        let fields = [&2u32.to_ne_bytes()[..], &(payload.len() as u32).to_ne_bytes()].concat();
        let header = [b"OTEL_CTX", &fields[..], &time.to_ne_bytes(), &0x2000u64.to_ne_bytes()].concat();
        let system = FakeSystem::default().process(PID, "/bin/shop", Vec::new());
        Box::new(system.memory(PID, 0x1000, &header).memory(PID, 0x2000, &payload))
    }

    fn registry(system: Box<dyn System>) -> Registry {
        let mut registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 20);
        registry.show_contexts();
        registry.scan_process(PID);
        registry
    }

    fn value(registry: &Registry, pid: u32) -> Option<&str> {
        registry.attributes(pid).first().map(|(_, value)| &**value)
    }

    #[test]
    fn contexts_that_come_late_and_change_are_read() {
        let mut registry = registry(Box::new(FakeSystem::default().process(PID, "/bin/shop", Vec::new())));
        registry.update_context(PID, 1);
        assert_eq!(value(&registry, PID), None);
        registry.system = machine(5, "one");
        registry.update_context(PID, FIRST_DELAY);
        assert_eq!(value(&registry, PID), None, "too early");
        registry.update_context(PID, FIRST_DELAY + 1);
        assert_eq!(value(&registry, PID), Some("one"));
        registry.system = machine(5, "of the same time");
        registry.update_context(PID, 2 * REFRESH_INTERVAL);
        assert_eq!(value(&registry, PID), Some("one"));
        registry.system = machine(6, "two");
        registry.update_context(PID, 4 * REFRESH_INTERVAL);
        assert_eq!((value(&registry, PID), registry.stats.contexts), (Some("two"), 2));
        // One that changes, and one that is dropped.
        registry.system = machine(0, "three");
        registry.update_context(PID, 6 * REFRESH_INTERVAL);
        assert_eq!(registry.stats.context_failures, [("changes while it is read", 1)].into());
        registry.system = Box::new(FakeSystem::default());
        registry.update_context(PID, 8 * REFRESH_INTERVAL);
        assert_eq!(value(&registry, PID), Some("two"));
    }

    #[test]
    fn children_and_other_programs_have_contexts_of_their_own() {
        let mut registry = registry(machine(5, "one"));
        registry.update_context(PID, 1);
        let event = |pid, life| LifeEvent { time: 2, pid, life };
        registry.apply(&event(8, Life::Forked { parent: PID }));
        registry.update_context(8, 3);
        assert_eq!((value(&registry, PID), value(&registry, 8)), (Some("one"), None));
        registry.apply(&event(PID, Life::Executed));
        assert_eq!(value(&registry, PID), None);
    }

    #[test]
    fn keys_that_are_not_known_are_asked_for_some_times_a_second() {
        let mut registry = registry(machine(1, "one"));
        registry.update_context(PID, 1);
        for step in 1..200 {
            registry.system = machine(1 + step, "another");
            registry.refresh_context(PID, step * KEY_INTERVAL);
        }
        assert_eq!(registry.stats.contexts, 1 + u64::from(MAX_KEY_READS));
        registry.update_context(PID, 1 + REFRESH_INTERVAL);
        registry.system = machine(1_000, "last");
        registry.refresh_context(PID, 2 * REFRESH_INTERVAL);
        assert_eq!(value(&registry, PID), Some("last"));
    }

    #[test]
    fn contexts_are_not_read_unless_they_are_requested() {
        let mut registry = Registry::new(machine(5, "one"), Box::new(MemoryTables::default()), None, 1 << 20);
        registry.scan_process(PID);
        registry.update_context(PID, 1);
        assert_eq!((registry.stats.contexts, value(&registry, PID)), (0, None));
    }
}
