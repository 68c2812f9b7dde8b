//! Labels that this program sets for its own threads.
//!
//! ```text
//!   label("request", 7)  ──► history of the thread: (time, labels)          sample: thread, time
//!   drop of the guard    ──► history of the thread: (time, former labels)   ──► the labels at that time
//! ```
//!
//! A sample is read some milliseconds after it was taken, so each thread keeps its last changes.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::perf;
use crate::profile::{LabelValue, Labels, SampleLabel};

/// Maximum number of changes kept for a thread.
const MAX_CHANGES: usize = 4_096;

/// Number of threads from which on those that ended are removed.
const MAX_THREADS: usize = 1_024;

/// Nanoseconds for which the labels of a thread that ended are kept.
const LINGER: u64 = 10_000_000_000;

/// Sets a label of the current thread until the guard is dropped.
///
/// The samples of the thread have it in profiles of this program ([`Builder::include_self`](super::Builder::include_self)): in
/// [`Sample::labels`](crate::profile::Sample::labels), and where sinks have a place for labels. An inner scope with the same key
/// replaces the value. It costs the same with and without a profiler.
///
/// A thread keeps its last 4,096 changes, and samples that were taken before these have no labels: more than some 5,000 scopes a
/// second in one thread may be too many. A profile has at most 16,384 combinations of threads and labels; later ones have none.
/// Recordings don't hold labels.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::live::label;
///
/// fn handle(request: i64) {
///     let _request = label("request", request);
///     let _tenant = label("tenant", "blue");
///     // The work of the request.
/// }
/// # handle(7);
/// ```
pub fn label(key: impl Into<Arc<str>>, value: impl Into<LabelValue>) -> LabelGuard {
    let label = SampleLabel::new(key, value);
    let former = change(|labels| labels.with(label)).unwrap_or_default();
    LabelGuard { former, _thread: PhantomData }
}

/// Restores the labels that the thread had before [`label`], when it is dropped.
///
/// Guards of one thread are dropped in the reverse order in which they were made: each puts back the labels of the time at
/// which it was made. A guard stays in its thread, so it is not held across `.await`.
#[derive(Debug)]
#[must_use = "the label is removed when the guard is dropped"]
pub struct LabelGuard {
    former: Labels,
    /// Keeps the guard in its thread.
    _thread: PhantomData<*const ()>,
}

impl Drop for LabelGuard {
    fn drop(&mut self) {
        let former = std::mem::take(&mut self.former);
        change(|_| former);
    }
}

/// Returns the labels of a thread of this program at `time`, in nanoseconds of `CLOCK_MONOTONIC`.
pub(super) fn labels_at(tid: u32, time: u64) -> Labels {
    let history = lock(&THREADS).get(&tid).cloned();
    history.map(|history| lock(&history).at(time)).unwrap_or_default()
}

/// The changes of a thread's labels.
#[derive(Debug, Default)]
struct History {
    changes: VecDeque<(u64, Labels)>,
    /// Time at which the thread ended.
    ended: Option<u64>,
}

impl History {
    fn push(&mut self, time: u64, labels: Labels) {
        if self.changes.len() >= MAX_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back((time, labels));
    }

    fn current(&self) -> Labels {
        self.changes.back().map(|(_, labels)| labels.clone()).unwrap_or_default()
    }

    fn at(&self, time: u64) -> Labels {
        let behind = self.changes.partition_point(|&(at, _)| at <= time);
        let index = behind.checked_sub(1);
        index.and_then(|index| self.changes.get(index)).map(|(_, labels)| labels.clone()).unwrap_or_default()
    }
}

/// The history of each thread that has set a label.
static THREADS: LazyLock<Mutex<HashMap<u32, Arc<Mutex<History>>>>> = LazyLock::new(Mutex::default);

thread_local! {
    static OWN: Own = Own::register();
}

/// The history of the current thread.
struct Own(Arc<Mutex<History>>);

impl Own {
    fn register() -> Own {
        let history = Arc::<Mutex<History>>::default();
        if let Some(tid) = own_tid() {
            let now = perf::clock_now(libc::CLOCK_MONOTONIC);
            let mut threads = lock(&THREADS);
            if threads.len() >= MAX_THREADS {
                let is_recent = |at: u64| now.saturating_sub(at) < LINGER;
                threads.retain(|_, history| lock(history).ended.is_none_or(is_recent));
            }
            threads.insert(tid, history.clone());
        }
        Own(history)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        lock(&self.0).ended = Some(perf::clock_now(libc::CLOCK_MONOTONIC));
    }
}

/// Changes the labels of the current thread and returns the former ones; `None` while the thread ends.
fn change(to: impl FnOnce(&Labels) -> Labels) -> Option<Labels> {
    let change = |own: &Own| {
        let mut history = lock(&own.0);
        let former = history.current();
        history.push(perf::clock_now(libc::CLOCK_MONOTONIC), to(&former));
        former
    };
    OWN.try_with(change).ok()
}

/// Returns the id of the current thread as the mounted `/proc` has it.
fn own_tid() -> Option<u32> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(labels: &Labels) -> Vec<String> {
        labels.iter().map(|label| format!("{}={}", label.key(), label.value())).collect()
    }

    #[test]
    fn labels_are_those_of_the_scope_at_the_time() {
        let now = || perf::clock_now(libc::CLOCK_MONOTONIC);
        let tid = own_tid().unwrap();
        let mut times = vec![now()];
        let outer = label("tenant", "blue");
        times.push(now());
        let inner = label("tenant", "red");
        let request = label("request", 7);
        times.push(now());
        drop(request);
        drop(inner);
        times.push(now());
        drop(outer);
        times.push(now());
        let at: Vec<Vec<String>> = times.into_iter().map(|time| texts(&labels_at(tid, time))).collect();
        assert_eq!(
            at,
            [vec![], vec!["tenant=blue"], vec!["request=7", "tenant=red"], vec!["tenant=blue"], vec![]]
        );
    }

    #[test]
    fn histories_are_bounded() {
        let mut history = History::default();
        for time in 0..3 * MAX_CHANGES as u64 {
            history.push(time, Labels::default().with(SampleLabel::new("n", time as i64)));
        }
        assert_eq!(history.changes.len(), MAX_CHANGES);
        assert!(history.at(5).is_empty());
        assert_eq!(texts(&history.at(u64::MAX)), ["n=12287"]);
    }
}
