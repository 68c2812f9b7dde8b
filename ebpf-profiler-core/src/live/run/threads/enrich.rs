//! The thread that asks the embedder about processes.
//!
//! ```text
//!   pipeline thread ── new process ──► queue, at most 4,096 ──► enrich thread ──► hook
//!                                                                   │
//!   names thread ◄── answers, within a second ── cache of 16,384 ◄──┘
//! ```
//!
//! Each process is asked about once, when its first sample arrives. A hook that takes longer than a
//! second is no longer waited for until it returns: profiles go on without its answers.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use super::super::enrichment::{Enrichment, EnrichmentStats};
use super::{Shared, lock};
use crate::live::machine::this_thread;
use crate::profile::{Process, Profile};

/// Longest time that a profile waits for answers.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of processes that wait for the hook.
const MAX_WAITING: usize = 4_096;

/// Maximum number of answers that are kept.
const MAX_ANSWERS: usize = 16_384;

/// A hook, which returns what it knows of a process.
pub(in super::super) type Hook = Box<dyn FnMut(&Process) -> Enrichment + Send>;

/// Asks a hook about processes, and adds its answers to profiles.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Enricher(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Process>,
    /// `None` for a process that waits or is being asked about.
    answers: HashMap<Process, Option<Enrichment>>,
    /// Time since which the hook runs.
    since: Option<Instant>,
    has_ended: bool,
    stats: EnrichmentStats,
}

impl State {
    fn ask(&mut self, process: &Process) {
        if self.has_ended || self.answers.contains_key(process) {
            return;
        }
        if self.waiting.len() >= MAX_WAITING {
            self.stats.dropped += 1;
            return;
        }
        if self.answers.len() >= MAX_ANSWERS {
            // Those that still run are asked about again.
            self.answers.retain(|_, answer| answer.is_none());
        }
        self.answers.insert(process.clone(), None);
        self.waiting.push_back(process.clone());
    }

    /// Returns `true` while answers of these processes may come soon.
    fn is_awaited(&self, processes: &[Process]) -> bool {
        let is_stuck = self.since.is_some_and(|since| since.elapsed() >= MAX_WAIT);
        let is_missing = |process: &Process| matches!(self.answers.get(process), Some(None));
        !self.has_ended && !is_stuck && processes.iter().any(is_missing)
    }
}

impl Enricher {
    /// Asks about a process, unless that was done.
    pub(in super::super) fn ask(&self, process: &Process) {
        lock(&self.0.state).ask(process);
        self.0.changed.notify_all();
    }

    /// Calls `hook` until the end.
    pub(super) fn run(&self, mut hook: Hook, shared: &Shared) {
        lock(&shared.tids).push(this_thread::id());
        while let Some(process) = self.next() {
            let answer = catch_unwind(AssertUnwindSafe(|| hook(&process)));
            let mut state = lock(&self.0.state);
            state.since = None;
            state.has_ended |= answer.is_err();
            state.stats.panics += u64::from(answer.is_err());
            state.stats.calls += u64::from(answer.is_ok());
            state.answers.insert(process, Some(answer.unwrap_or_default()));
            drop(state);
            self.0.changed.notify_all();
        }
        // A hook may panic in its destructor too.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(hook)));
    }

    fn next(&self) -> Option<Process> {
        let is_idle = |state: &mut State| state.waiting.is_empty() && !state.has_ended;
        let waited = self.0.changed.wait_while(lock(&self.0.state), is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let process = state.waiting.pop_front().filter(|_| !state.has_ended)?;
        state.since = Some(Instant::now());
        Some(process)
    }

    /// Lets the thread end as soon as the hook returns.
    pub(super) fn end(&self) {
        lock(&self.0.state).has_ended = true;
        self.0.changed.notify_all();
    }

    /// Returns the profile with the answers that come within `limit`.
    pub(super) fn apply(&self, profile: Profile, limit: Duration) -> Profile {
        let mut state = lock(&self.0.state);
        profile.processes().iter().for_each(|process| state.ask(process));
        self.0.changed.notify_all();
        let is_awaited = |state: &mut State| state.is_awaited(profile.processes());
        let waited = self.0.changed.wait_timeout_while(state, limit.min(MAX_WAIT), is_awaited);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let State { answers, stats, .. } = &mut *state;
        profile.change_processes(|process, threads| match answers.get(process) {
            Some(Some(answer)) => answer.apply(process, threads),
            _ => stats.late += 1,
        })
    }

    /// Returns the counters.
    pub(super) fn stats(&self) -> EnrichmentStats {
        lock(&self.0.state).stats.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::testing;

    /// Runs a hook in a thread, with an enricher that ends it.
    fn start(hook: impl FnMut(&Process) -> Enrichment + Send + 'static) -> Enricher {
        let enricher = Enricher::default();
        let (own, shared) = (enricher.clone(), Shared::of_test());
        std::thread::spawn(move || own.run(Box::new(hook), &shared));
        enricher
    }

    fn named(process: &Process) -> Enrichment {
        Enrichment::new().attribute("service.name", &process.executable).label("tenant", "blue")
    }

    fn services(profile: &Profile) -> Vec<String> {
        let attributes = profile.processes().iter().flat_map(|process| &process.attributes);
        attributes.map(|(_, value)| value.to_string()).collect()
    }

    #[test]
    fn each_process_is_asked_about_once() {
        let enricher = start(named);
        let profile = testing::profile("cat;main 3\nls;main 5");
        // The machine may be busy for longer than a profile waits.
        while enricher.stats().calls < 2 {
            enricher.apply(profile.clone(), MAX_WAIT);
        }
        for _ in 0..3 {
            let enriched = enricher.apply(profile.clone(), MAX_WAIT);
            assert_eq!(services(&enriched), ["/usr/bin/cat", "/usr/bin/ls"]);
            assert!(enriched.samples().all(|sample| sample.labels().get("tenant") == Some(&"blue".into())));
        }
        assert_eq!((enricher.stats().calls, enricher.stats().dropped), (2, 0));
        assert!(services(&profile).is_empty());
        enricher.end();
    }

    #[test]
    fn hook_that_blocks_for_ever_is_not_waited_for_again() {
        let (_open, shut) = channel::<()>();
        let enricher = start(move |_| {
            let _ = shut.recv();
            Enrichment::new()
        });
        let profile = testing::profile("cat;main 3\nls;main 5");
        profile.processes().iter().for_each(|process| enricher.ask(process));
        while lock(&enricher.0.state).since.is_none() {
            std::thread::yield_now();
        }
        for late in [2, 4, 6, 8] {
            assert!(services(&enricher.apply(profile.clone(), Duration::MAX)).is_empty());
            assert_eq!(enricher.stats().late, late);
            // The first profile alone waits.
            assert!(!lock(&enricher.0.state).is_awaited(profile.processes()));
        }
        enricher.end();
    }

    #[test]
    fn panic_of_a_hook_costs_the_hook() {
        let enricher = start(|process| match &*process.executable {
            "/usr/bin/ls" => panic!("no name"),
            _ => named(process),
        });
        let profile = testing::profile("cat;main 3\nls;main 5");
        while enricher.stats().panics == 0 {
            enricher.apply(profile.clone(), MAX_WAIT);
        }
        for _ in 0..2 {
            assert_eq!(services(&enricher.apply(profile.clone(), MAX_WAIT)), ["/usr/bin/cat"]);
        }
        assert_eq!((enricher.stats().panics, enricher.stats().calls), (1, 1));
    }

    #[test]
    fn what_waits_and_what_is_kept_is_bounded() {
        let mut state = State::default();
        for pid in 0..MAX_WAITING as u32 + 10 {
            state.ask(&Process::new(pid));
        }
        assert_eq!((state.waiting.len(), state.stats.dropped), (MAX_WAITING, 10));
        for pid in 0..2 * MAX_ANSWERS as u32 {
            state.waiting.clear();
            state.ask(&Process::new(pid));
            state.answers.insert(Process::new(pid), Some(Enrichment::new()));
            assert!(state.answers.len() <= MAX_ANSWERS + MAX_WAITING);
        }
    }
}
