//! The queue of tables that are compiled by a thread of their own.
//!
//! ```text
//!   pipeline ── push: file, hottest first ──► waiting, at most 64 ──► thread: Job::run ─┐
//!      ▲                                                                               │
//!      └────────────── take_done, at the next batch ◄──── done, at most 4 ◄────────────┘
//! ```
//!
//! Samples of these files are held meanwhile, or lose their callers, with a reason.
#![cfg_attr(not(any(feature = "live", test)), expect(dead_code, reason = "only a live profiler has threads"))]

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::compile::{Failure, Job};
use super::until::IsOver;
use crate::process::ModuleId;
use crate::unwind::Compiled;

/// Maximum number of files that wait.
const MAX_WAITING: usize = 64;

/// Maximum number of tables that the pipeline has not taken: each may take tens of megabytes.
const MAX_DONE: usize = 4;

/// Interval at which a waiting caller checks its deadline.
const CHECK: Duration = Duration::from_millis(5);

/// A queue of tables to be compiled, shared by a registry and a thread.
#[derive(Default)]
pub(crate) struct BuildQueue {
    state: Mutex<State>,
    changed: Condvar,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// The file whose table is being compiled.
    current: Option<ModuleId>,
    done: Vec<Done>,
}

/// A file whose table is to be compiled.
struct Waiting {
    module: ModuleId,
    /// Number of samples that needed the table.
    samples: u64,
    job: Job,
}

/// The result of a job.
pub(super) struct Done {
    pub(super) module: ModuleId,
    pub(super) result: Result<Compiled, Failure>,
}

impl BuildQueue {
    /// Adds a file, or counts one more sample of it. Without room it is dropped, and added by a later sample.
    pub(super) fn push(&self, module: ModuleId, job: impl FnOnce() -> Job) {
        let mut state = self.lock();
        if let Some(waiting) = state.waiting.iter_mut().find(|waiting| waiting.module == module) {
            waiting.samples += 1;
        } else if !state.has(module) && state.waiting.len() < MAX_WAITING {
            state.waiting.push(Waiting { module, samples: 1, job: job() });
            self.changed.notify_all();
        }
    }

    /// Returns `true` if the table of a file waits, is being compiled, or was not taken yet.
    pub(super) fn has(&self, module: ModuleId) -> bool {
        let state = self.lock();
        state.has(module) || state.waiting.iter().any(|waiting| waiting.module == module)
    }

    /// Takes the results.
    pub(super) fn take_done(&self) -> Vec<Done> {
        let done = std::mem::take(&mut self.lock().done);
        if !done.is_empty() {
            self.changed.notify_all();
        }
        done
    }

    /// Waits for a result until `is_over` returns `true`. Returns `false` if none comes.
    pub(super) fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        let mut state = self.lock();
        while state.done.is_empty() && !state.is_idle() && !is_over() && !self.is_closed() {
            state = self.changed.wait_timeout(state, CHECK).unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.done.is_empty()
    }

    /// Compiles tables until the queue is closed. `set_busy` is told whether there is work.
    pub(crate) fn run(&self, set_busy: &dyn Fn(bool)) {
        set_busy(false);
        while let Some((module, job)) = self.next() {
            set_busy(true);
            let result = job.run();
            set_busy(false);
            let mut state = self.lock();
            state.current = None;
            state.done.push(Done { module, result });
            self.changed.notify_all();
        }
    }

    /// Takes the file with the most samples, once there is one and room for its table.
    pub(super) fn next(&self) -> Option<(ModuleId, Job)> {
        let is_blocked = |state: &mut State| {
            !self.is_closed() && (state.waiting.is_empty() || state.done.len() >= MAX_DONE)
        };
        let state = self.changed.wait_while(self.lock(), is_blocked);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if self.is_closed() {
            return None;
        }
        let hottest = (0..state.waiting.len()).max_by_key(|&index| state.waiting[index].samples)?;
        let Waiting { module, job, .. } = state.waiting.swap_remove(hottest);
        state.current = Some(module);
        Some((module, job))
    }

    /// Returns `true` once no table is needed any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Ends the thread: at once if it waits, else with its next read.
    fn close(&self) {
        // Under the lock: otherwise a thread between its check and its wait would miss the signal.
        let mut state = self.lock();
        self.is_closed.store(true, Ordering::Relaxed);
        state.waiting.clear();
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has(&self, module: ModuleId) -> bool {
        self.current == Some(module) || self.done.iter().any(|done| done.module == module)
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.current.is_none()
    }
}

/// The registry's end of a queue. Dropping it closes the queue.
pub(super) struct QueueOwner(Arc<BuildQueue>);

impl QueueOwner {
    pub(super) fn new(queue: Arc<BuildQueue>) -> QueueOwner {
        QueueOwner(queue)
    }

    /// Returns a condition that ends a job: `is_over` is, or the queue is closed.
    pub(super) fn end_of_jobs(&self, is_over: &IsOver) -> IsOver {
        let (is_over, queue) = (is_over.clone(), self.0.clone());
        Arc::new(move || is_over() || queue.is_closed())
    }
}

impl Deref for QueueOwner {
    type Target = BuildQueue;

    fn deref(&self) -> &BuildQueue {
        &self.0
    }
}

impl Drop for QueueOwner {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The queue of large files.
pub(super) struct Builder {
    pub(super) queue: QueueOwner,
    /// Minimum number of bytes of code of a file whose table the thread compiles.
    pub(super) min_code: u64,
}
