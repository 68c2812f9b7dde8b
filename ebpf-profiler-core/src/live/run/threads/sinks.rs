//! The sink threads: one for each sink, behind a bounded queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::{Shared, Stage, lock, message};
use crate::live::machine::reservation::Reserved;
use crate::profile::Profile;
use crate::sink::{Sink, SinkError};

/// Maximum number of profiles that wait for a sink.
const QUEUE: usize = 4;

/// Profiles that wait for one sink.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    pushed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    profiles: VecDeque<Profile>,
    /// No further profile comes.
    has_ended: bool,
    /// No profile is accepted any more.
    is_closed: bool,
}

impl Queue {
    /// Appends a profile. Returns the one that is dropped for it: the oldest of a full queue, or
    /// itself.
    pub(super) fn push(&self, profile: Profile) -> Option<Profile> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_closed {
            return Some(profile);
        }
        let oldest = (waiting.profiles.len() >= QUEUE).then(|| waiting.profiles.pop_front()).flatten();
        waiting.profiles.push_back(profile);
        self.pushed.notify_one();
        oldest
    }

    /// Lets [`Queue::pop`] return `None` after the last profile.
    pub(super) fn end(&self) {
        lock(&self.waiting).has_ended = true;
        self.pushed.notify_one();
    }

    /// Accepts no profile any more. Returns those that wait.
    pub(super) fn close(&self) -> Vec<Profile> {
        let mut waiting = lock(&self.waiting);
        waiting.is_closed = true;
        self.pushed.notify_one();
        waiting.profiles.drain(..).collect()
    }

    /// Waits for the next profile. Returns `None` if no further one comes.
    fn pop(&self) -> Option<Profile> {
        let is_idle = |it: &mut Waiting| it.profiles.is_empty() && !it.has_ended && !it.is_closed;
        let waiting = self.pushed.wait_while(lock(&self.waiting), is_idle);
        waiting.unwrap_or_else(PoisonError::into_inner).profiles.pop_front()
    }
}

/// Hands profiles to one sink.
pub(super) struct SinkThread {
    /// Number of the sink in the order of [`Builder::sink`](crate::live::Builder::sink).
    number: usize,
    sink: Box<dyn Sink>,
    queue: Arc<Queue>,
    shared: Arc<Shared>,
}

impl SinkThread {
    pub(super) fn new(
        number: usize,
        sink: Box<dyn Sink>,
        queue: Arc<Queue>,
        shared: Arc<Shared>,
    ) -> SinkThread {
        SinkThread { number, sink, queue, shared }
    }

    pub(super) fn run(self, reserved: Option<&Reserved>) {
        let SinkThread { number, mut sink, queue, shared } = self;
        let set_busy = |is_busy| reserved.into_iter().for_each(|reserved| reserved.set_busy(is_busy));
        let next = || {
            set_busy(false);
            let profile = queue.pop();
            set_busy(true);
            profile
        };
        let mut call = |act: &mut dyn FnMut(&mut dyn Sink) -> Result<(), SinkError>| {
            let result = catch_unwind(AssertUnwindSafe(|| act(&mut *sink)));
            let result = result.map_err(|payload| message(&*payload));
            shared.update(|state| match &result {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    state.sinks.errors += 1;
                    state.add_sink_error(error.to_string());
                }
                Err(message) => {
                    state.sinks.panics += 1;
                    state.add_sink_error(format!(
                        "sink {number} panicked and gets no further profiles: {message}"
                    ));
                }
            });
            result
        };
        let mut is_alive = true;
        while is_alive && let Some(profile) = next() {
            if shared.ending.is_past(Stage::Sinks) {
                shared.update(|state| state.sinks.count_dropped(&[profile]));
                continue;
            }
            match call(&mut |sink| sink.take(&profile)) {
                Ok(Ok(())) => shared.update(|state| state.sinks.delivered += 1),
                Ok(Err(_)) => {}
                Err(_) => is_alive = false,
            }
        }
        if is_alive {
            let deadline = Instant::now() + shared.ending.left(Stage::Sinks);
            let _ = call(&mut |sink| sink.flush_until(deadline));
        } else {
            let left = queue.close();
            shared.update(|state| state.sinks.count_dropped(&left));
        }
        // A sink may panic in its destructor too.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(sink)));
    }
}
