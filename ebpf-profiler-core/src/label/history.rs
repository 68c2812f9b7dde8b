//! The changes of each thread's labels.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::profile::Labels;

/// Maximum number of changes kept for a thread.
const MAX_CHANGES: usize = 131_072;

/// Number of changes of a thread after which the profilers are woken, to read samples while their
/// labels are kept.
const CHANGES_PER_WAKE: u64 = MAX_CHANGES as u64 / 8;

/// Number of threads from which on those that ended are removed.
const MAX_THREADS: usize = 1_024;

/// Time for which former labels, and the labels of ended threads, are kept, in nanoseconds.
const KEEP_TIME: u64 = 10_000_000_000;

/// Number of profilers that include this program.
static RECORDINGS: AtomicUsize = AtomicUsize::new(0);

/// Wakes one of them.
type Wake = Box<dyn Fn() + Send>;

/// Functions that wake them, by id.
static WAKES: Mutex<Vec<(usize, Wake)>> = Mutex::new(Vec::new());

/// Returns nanoseconds of the clock of samples; set by the first profiler. Changes before it have
/// the time 0.
static CLOCK: OnceLock<fn() -> u64> = OnceLock::new();

/// Keeps the changes of labels while a profiler runs that includes this program.
#[derive(Debug)]
#[must_use = "labels are recorded until it is dropped"]
pub(crate) struct Recording {
    id: usize,
}

impl Recording {
    /// Begins to record. `wake` makes the profiler read its samples.
    pub(crate) fn start(clock: fn() -> u64, wake: impl Fn() + Send + 'static) -> Recording {
        CLOCK.get_or_init(|| clock);
        let mut wakes = lock(&WAKES);
        let id = wakes.last().map_or(0, |(id, _)| id + 1);
        wakes.push((id, Box::new(wake)));
        RECORDINGS.store(wakes.len(), Ordering::Release);
        Recording { id }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let mut wakes = lock(&WAKES);
        wakes.retain(|(id, _)| *id != self.id);
        RECORDINGS.store(wakes.len(), Ordering::Release);
        if wakes.is_empty() {
            lock(&THREADS).values().for_each(|history| lock(history).forget());
        }
    }
}

/// Returns `true` if a profiler includes this program.
#[inline]
pub(super) fn is_recording() -> bool {
    RECORDINGS.load(Ordering::Relaxed) != 0
}

/// Changes the labels of the current thread and returns the former ones; `None` while the thread
/// ends.
pub(super) fn change(to: impl FnOnce(&Labels) -> Labels) -> Option<Labels> {
    let change = |own: &Own| {
        let mut history = lock(&own.0);
        let labels = to(history.current());
        let time = now();
        let former = history.push(time, labels, is_recording());
        let is_due = history.pushed.is_multiple_of(CHANGES_PER_WAKE);
        drop(history);
        if is_due {
            lock(&WAKES).iter().for_each(|(_, wake)| wake());
        }
        former
    };
    OWN.try_with(change).ok()
}

/// Returns the labels of a thread of this program at `time`, in nanoseconds of the clock of
/// samples; `None` if they are no longer kept.
pub(crate) fn labels_at(tid: u32, time: u64) -> Option<Labels> {
    let history = lock(&THREADS).get(&tid).cloned();
    history.map_or(Some(Labels::default()), |history| lock(&history).at(time))
}

/// The changes of a thread's labels.
#[derive(Debug, Default)]
struct History {
    changes: VecDeque<(u64, Labels)>,
    /// Number of changes, those included that are no longer kept.
    pushed: u64,
    /// Time of the last change that is no longer kept.
    forgotten: Option<u64>,
    /// Time at which the thread ended.
    ended: Option<u64>,
}

impl History {
    /// Adds a change and returns the former labels. Only the last one is kept if no profiler runs.
    fn push(&mut self, time: u64, labels: Labels, is_recording: bool) -> Labels {
        let former = self.current().clone();
        while self.changes.len() >= if is_recording { MAX_CHANGES } else { 1 } {
            self.forget_first();
        }
        // Two for each that is added: a thread that changed often, and then seldom, frees its memory soon.
        for _ in 0..2 {
            if self.changes.get(1).is_some_and(|&(next, _)| time.saturating_sub(next) > KEEP_TIME) {
                self.forget_first();
            }
        }
        if self.changes.capacity() > 64 && self.changes.len() < self.changes.capacity() / 4 {
            self.changes.shrink_to(self.changes.len() * 2);
        }
        self.changes.push_back((time, labels));
        self.pushed += 1;
        former
    }

    fn forget_first(&mut self) {
        self.forgotten = self.changes.pop_front().map(|(time, _)| time);
    }

    fn current(&self) -> &Labels {
        static NONE: Labels = Labels::NONE;
        self.changes.back().map_or(&NONE, |(_, labels)| labels)
    }

    fn at(&self, time: u64) -> Option<Labels> {
        let end = self.changes.partition_point(|&(at, _)| at <= time);
        match end.checked_sub(1).and_then(|index| self.changes.get(index)) {
            Some((_, labels)) => Some(labels.clone()),
            // Before the first change there were no labels.
            None => self.forgotten.is_none().then(Labels::default),
        }
    }

    /// Keeps the current labels only.
    fn forget(&mut self) {
        let last = self.changes.pop_back();
        self.forgotten = self.changes.back().map(|&(time, _)| time).or(self.forgotten);
        self.changes = last.into_iter().collect();
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
            let now = now();
            let mut threads = lock(&THREADS);
            if threads.len() >= MAX_THREADS {
                let is_recent = |at: u64| now.saturating_sub(at) < KEEP_TIME;
                threads.retain(|_, history| lock(history).ended.is_none_or(is_recent));
            }
            threads.insert(tid, history.clone());
        }
        Own(history)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        lock(&self.0).ended = Some(now());
    }
}

fn now() -> u64 {
    CLOCK.get().map_or(0, |clock| clock())
}

/// Returns the id of the current thread as the mounted `/proc` has it.
fn own_tid() -> Option<u32> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the labels of the current thread.
#[cfg(test)]
pub(super) fn current() -> Labels {
    OWN.with(|own| lock(&own.0).current().clone())
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::label::{enter, label};
    use crate::profile::SampleLabel;

    /// Keeps other tests from recording.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        lock(&ALONE)
    }

    /// Starts a recording with a clock that counts its calls.
    pub(crate) fn record() -> Recording {
        Recording::start(count, || ())
    }

    static CALLS: AtomicU64 = AtomicU64::new(1);

    fn count() -> u64 {
        CALLS.fetch_add(1, Ordering::Relaxed)
    }

    fn texts(labels: &Labels) -> Vec<String> {
        labels.iter().map(|label| format!("{}={}", label.key(), label.value())).collect()
    }

    #[test]
    fn labels_are_those_of_the_scope_at_the_time() {
        let _alone = alone();
        let _recording = record();
        let tid = own_tid().unwrap();
        let mut times = vec![count()];
        let outer = label("tenant", "blue");
        times.push(count());
        let inner = enter(&Labels::from([("tenant", "red")]));
        let request = label("request", 7);
        times.push(count());
        drop(request);
        drop(inner);
        times.push(count());
        drop(outer);
        times.push(count());
        let at = times.into_iter().map(|time| texts(&labels_at(tid, time).unwrap()));
        assert_eq!(
            at.collect::<Vec<_>>(),
            [vec![], vec!["tenant=blue"], vec!["request=7", "tenant=red"], vec!["tenant=blue"], vec![]]
        );
    }

    #[test]
    fn histories_are_bounded_and_say_what_they_forgot() {
        let mut history = History::default();
        assert_eq!(history.at(5), Some(Labels::default()));
        for time in 1..=3 * MAX_CHANGES as u64 {
            history.push(time, Labels::default().with(SampleLabel::new("n", time as i64)), true);
        }
        assert_eq!(history.changes.len(), MAX_CHANGES);
        assert_eq!(history.at(5), None);
        assert_eq!(history.at(2 * MAX_CHANGES as u64), None);
        let last = 3 * MAX_CHANGES as u64;
        for time in [2 * MAX_CHANGES as u64 + 1, last, u64::MAX] {
            assert_eq!(texts(&history.at(time).unwrap()), [format!("n={}", time.min(last))]);
        }
        history.forget();
        assert_eq!((history.changes.len(), history.at(last - 1)), (1, None));
        assert_eq!(texts(&history.at(last).unwrap()), [format!("n={last}")]);
        history.push(last + 1, Labels::default(), false);
        assert_eq!((history.changes.len(), history.at(last + 1)), (1, Some(Labels::default())));
    }

    #[test]
    fn labels_that_are_no_longer_set_are_kept_for_some_time() {
        let mut history = History::default();
        let set = |history: &mut History, time: u64| {
            history.push(time, Labels::default().with(SampleLabel::new("n", time as i64)), true);
        };
        (1..=1_000).for_each(|time| set(&mut history, time));
        (1..=500).for_each(|at| set(&mut history, 2 * KEEP_TIME + at));
        assert_eq!(history.changes.len(), 501, "the first ones are freed, two for each");
        assert!(history.changes.capacity() <= 2 * 1_024);
        assert_eq!(history.at(999), None);
        assert_eq!(texts(&history.at(KEEP_TIME).unwrap()), ["n=1000"]);
        set(&mut history, 4 * KEEP_TIME);
        set(&mut history, 4 * KEEP_TIME + 1);
        assert_eq!(history.at(KEEP_TIME), None);
    }

    /// A thread that changes its labels often has its samples read in time.
    #[test]
    fn many_changes_wake_the_profiler() {
        static WOKEN: AtomicU64 = AtomicU64::new(0);
        let _alone = alone();
        let _recording = Recording::start(count, || {
            WOKEN.fetch_add(1, Ordering::Relaxed);
        });
        let labels = Labels::from([("request", 7)]);
        for _ in 0..CHANGES_PER_WAKE {
            let _labels = enter(&labels);
        }
        assert!(WOKEN.load(Ordering::Relaxed) >= 1);
    }
}
