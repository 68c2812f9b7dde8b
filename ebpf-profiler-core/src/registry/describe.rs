//! Descriptions of processes.
//!
//! A process of a short life has exited when its first sample is taken, and `/proc` no longer shows
//! it. So descriptions are read as soon as samples arrive, before any of them is unwound, and a
//! process that was forked, executed nothing and is gone has the container of its parent.

use super::processes::Processes;
use crate::process::{Description, System};

/// Time after which a description is read again, in nanoseconds: a process can be moved to another
/// control group, and change its user.
const MAX_AGE: u64 = 10_000_000_000;

/// Generations that are searched for the container of a process that is gone.
const MAX_GENERATIONS: usize = 4;

impl Processes {
    /// Reads the description of a process with samples in the batch that begins, unless it is known
    /// and stays the same. `changes` if the process begins, ends or executes another program in
    /// the batch. `read` returns a description that came with the batch.
    pub(super) fn describe_early(
        &mut self,
        pid: u32,
        system: &dyn System,
        changes: bool,
        read: impl FnOnce() -> Option<Description>,
    ) {
        let is_known = self.get(pid).is_some_and(|entry| entry.description.is_some());
        let is_due = changes || !is_known && self.is_selected(pid);
        if is_due && pid != 0 && !self.described.contains_key(&pid) {
            let description = match read() {
                Some(description) => system.complete(pid, description),
                None => system.describe(pid),
            };
            self.described.insert(pid, description);
        }
    }

    /// Forgets what was read early: the batch ends.
    pub(super) fn end_early(&mut self) {
        self.described.clear();
    }

    /// Returns the description of a process at a time.
    pub(super) fn describe(
        &mut self,
        pid: u32,
        now: u64,
        system: &dyn System,
        is_over: bool,
    ) -> &Description {
        let entry = self.entry(pid);
        let is_fresh = now.saturating_sub(entry.described) < MAX_AGE || entry.ended.is_some();
        if entry.description.is_none() || !is_fresh {
            self.read_description(pid, now, system, is_over);
        }
        self.entry(pid).description.get_or_insert_default()
    }

    fn read_description(&mut self, pid: u32, now: u64, system: &dyn System, is_over: bool) {
        let read = match self.described.remove(&pid) {
            Some(description) => description,
            None if is_over => Description::default(),
            None => system.describe(pid),
        };
        let is_gone = read == Description::default();
        let describe = |pid| if is_over { Description::default() } else { system.describe(pid) };
        let inherited = if is_gone { self.inherited(pid, &describe) } else { None };
        let entry = self.entry(pid);
        entry.described = now;
        if entry.description.is_none() || !is_gone {
            entry.description = Some(inherited.unwrap_or(read));
        }
    }

    /// Returns what a process that is gone had of its parent, if it executed no other program.
    fn inherited(&self, pid: u32, describe: &dyn Fn(u32) -> Description) -> Option<Description> {
        let parent = self.get(pid)?.forked_by?;
        let mut ancestor = Some(parent);
        for _ in 0..MAX_GENERATIONS {
            let entry = self.get(ancestor?);
            let known = entry.and_then(|entry| entry.description.clone());
            let known = known.or_else(|| Some(describe(ancestor?)));
            if let Some(known) = known.filter(|known| *known != Description::default()) {
                let unknown = Description { created: 0, user: None, namespace_pid: 0, ..known };
                return Some(Description { parent, ..unknown });
            }
            ancestor = entry.and_then(|entry| entry.forked_by);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::sample::{Life, LifeEvent};
    use crate::tables::MemoryTables;
    use crate::testing::FakeSystem;

    const PARENT: u32 = 5;
    const CHILD: u32 = 6;

    fn registry(pids: &[u32]) -> Registry {
        let container = |pid: u32| Description {
            executable: format!("/bin/{pid}").into(),
            container: format!("container-{pid}").into(),
            user: Some(pid),
            created: pid.into(),
            ..Description::default()
        };
        let system =
            pids.iter().fold(FakeSystem::default(), |system, &pid| system.described(pid, container(pid)));
        Registry::new(Box::new(system), Box::new(MemoryTables::default()), None, 1 << 20)
    }

    fn apply(registry: &mut Registry, pid: u32, life: Life) {
        registry.apply(&LifeEvent { time: 1, pid, life });
    }

    #[test]
    fn forked_process_that_is_gone_has_the_container_of_its_parent() {
        let mut registry = registry(&[PARENT]);
        apply(&mut registry, CHILD, Life::Forked { parent: PARENT });
        apply(&mut registry, CHILD + 1, Life::Forked { parent: CHILD });
        for (pid, parent) in [(CHILD, PARENT), (CHILD + 1, CHILD)] {
            let child = registry.describe(pid, 1).clone();
            assert_eq!((&*child.container, &*child.executable), ("container-5", "/bin/5"));
            assert_eq!((child.parent, child.user, child.created), (parent, None, 0));
        }
        apply(&mut registry, CHILD, Life::Executed);
        assert_eq!(*registry.describe(CHILD, 1), Description::default());
        assert_eq!(*registry.describe(99, 1), Description::default());
    }

    #[test]
    fn what_was_read_early_is_that_of_the_program_executed_since() {
        let mut registry = registry(&[CHILD]);
        registry.describe_early(CHILD, true, || None);
        registry.system = Box::new(FakeSystem::default());
        apply(&mut registry, CHILD, Life::Forked { parent: PARENT });
        apply(&mut registry, CHILD, Life::Executed);
        assert_eq!(&*registry.describe(CHILD, 1).container, "container-6");
        registry.end_early();
        apply(&mut registry, CHILD, Life::Executed);
        assert_eq!(&*registry.describe(CHILD, 1).container, "");
    }

    #[test]
    fn descriptions_are_read_again_and_kept_when_the_process_is_gone() {
        let mut registry = registry(&[CHILD]);
        assert_eq!(&*registry.describe(CHILD, 1).container, "container-6");
        let moved = Description { container: "other".into(), ..Description::default() };
        registry.system = Box::new(FakeSystem::default().described(CHILD, moved));
        assert_eq!(&*registry.describe(CHILD, MAX_AGE).container, "container-6");
        assert_eq!(&*registry.describe(CHILD, MAX_AGE + 1).container, "other");
        registry.system = Box::new(FakeSystem::default());
        assert_eq!(&*registry.describe(CHILD, 3 * MAX_AGE).container, "other");
    }

    #[test]
    fn processes_that_are_not_selected_are_not_read_early() {
        let mut registry = registry(&[CHILD]);
        registry.set_filter(&[PARENT].into());
        registry.describe_early(CHILD, false, || None);
        assert!(registry.processes.described.is_empty());
        registry.describe_early(CHILD, true, || None);
        assert_eq!(registry.processes.described.len(), 1);
    }

    #[test]
    fn process_that_is_gone_has_what_came_with_the_batch() {
        let mut registry = registry(&[]);
        let read = Description { container: "c0ffee".into(), ..Description::default() };
        registry.describe_early(CHILD, true, || Some(read));
        assert_eq!(&*registry.describe(CHILD, 1).container, "c0ffee");
    }
}
