//! The queue between the profiler's thread and the worker, bounded in bytes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// A first-in first-out queue that rejects messages for which there is no room.
#[derive(Debug)]
pub(super) struct Queue {
    max_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Bytes>,
    /// Size of the queued messages and of the one that is being sent.
    bytes: usize,
    /// Size of the message that is being sent.
    sending: usize,
    /// Number of parts of that message: 1 unless it was divided.
    parts: u64,
    /// Set once the exporter is closed: the end of all attempts.
    closed: Option<Instant>,
    /// Set when the worker's thread has ended.
    has_ended: bool,
    /// Set when the exporter stopped waiting for the worker.
    is_abandoned: bool,
}

/// The reason why a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// The next attempt is due.
    Over,
    /// A message came in.
    Message,
}

impl State {
    fn is_over(&self) -> bool {
        self.closed.is_some_and(|end| Instant::now() >= end)
    }

    fn pop(&mut self) -> Option<Bytes> {
        let message = self.messages.pop_front()?;
        (self.sending, self.parts) = (message.len(), 1);
        Some(message)
    }
}

impl Queue {
    pub(super) fn new(max_bytes: usize) -> Queue {
        Queue { max_bytes, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, state: MutexGuard<'g, State>, time: Duration) -> MutexGuard<'g, State> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Appends a message and returns `true` if there is room for it.
    pub(super) fn push(&self, message: Bytes) -> bool {
        let mut state = self.lock();
        if state.closed.is_some() || state.bytes + message.len() > self.max_bytes {
            return false;
        }
        state.bytes += message.len();
        state.messages.push_back(message);
        self.changed.notify_all();
        true
    }

    /// Waits for the next message; `None` if the queue is closed and empty, or its deadline has
    /// passed.
    ///
    /// The message occupies its room until it is [`done`](Queue::done).
    pub(super) fn next(&self) -> Option<Bytes> {
        let mut state = self.lock();
        while state.messages.is_empty() && state.closed.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_over() { None } else { state.pop() }
    }

    /// Returns the next message; `None` if there is none or the deadline has passed.
    pub(super) fn try_next(&self) -> Option<Bytes> {
        let mut state = self.lock();
        if state.is_over() { None } else { state.pop() }
    }

    /// Returns the next message, also after the deadline of attempts.
    pub(super) fn pop(&self) -> Option<Bytes> {
        self.lock().pop()
    }

    /// Returns `true` if the queue is closed and its deadline has passed.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// Frees the room of the message that is being sent, once all its parts are done.
    ///
    /// Returns `false` if the message was already counted as abandoned.
    pub(super) fn done(&self) -> bool {
        let mut state = self.lock();
        state.parts = state.parts.saturating_sub(1);
        if state.parts == 0 {
            state.bytes -= std::mem::take(&mut state.sending);
        }
        !state.is_abandoned
    }

    /// Counts one part more of the message that is being sent.
    pub(super) fn divided(&self) {
        self.lock().parts += 1;
    }

    /// Waits before the next attempt; if `wake` is set, only until there is a message.
    ///
    /// When the queue is closed, the pause shortens to at most 200 ms so that the rest is tried
    /// once more.
    pub(super) fn pause(&self, time: Duration, wake: bool) -> Pause {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while state.closed.is_none() {
            let rest = until.saturating_duration_since(Instant::now());
            if wake && !state.messages.is_empty() {
                return Pause::Message;
            }
            if rest.is_zero() {
                return Pause::Over;
            }
            state = self.wait(state, rest);
        }
        let end = state.closed.unwrap_or(until).min(until);
        drop(state);
        std::thread::sleep(end.saturating_duration_since(Instant::now()).min(LAST_PAUSE));
        Pause::Over
    }

    /// Returns the earlier of `deadline` and the deadline of a closed queue.
    pub(super) fn shorten(&self, deadline: Instant) -> Instant {
        self.lock().closed.map_or(deadline, |end| end.min(deadline))
    }

    /// Rejects further messages; queued ones may be sent until `end`.
    pub(super) fn close(&self, end: Instant) {
        self.lock().closed = Some(end);
        self.changed.notify_all();
    }

    /// Records that the worker's thread has ended.
    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Waits until the worker's thread has ended, at most until `deadline`; returns `true` if it
    /// has.
    pub(super) fn wait_for_end(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            if state.has_ended || rest.is_zero() {
                return state.has_ended;
            }
            state = self.wait(state, rest);
        }
    }

    /// Drops all messages and returns how many there were, including the parts of the one that is
    /// being sent.
    pub(super) fn abandon(&self) -> u64 {
        let mut state = self.lock();
        let left = state.messages.len() as u64 + state.parts;
        state.messages.clear();
        (state.bytes, state.sending, state.parts) = (0, 0, 0);
        state.is_abandoned = true;
        left
    }

    /// Returns the number of messages, including the parts of the one that is being sent.
    pub(super) fn len(&self) -> u64 {
        let state = self.lock();
        state.messages.len() as u64 + state.parts
    }
}

/// Longest pause between attempts when the queue is closed.
const LAST_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_occupies_its_room_until_it_is_done() {
        let queue = Queue::new(10);
        assert!(queue.push(Bytes::from_static(b"123456")));
        assert!(!queue.push(Bytes::from_static(b"12345")));
        assert_eq!(queue.next().as_deref(), Some(&b"123456"[..]));
        assert!(!queue.push(Bytes::from_static(b"12345")));
        assert_eq!(queue.len(), 1);
        queue.divided();
        assert_eq!(queue.len(), 2);
        queue.done();
        assert!(!queue.push(Bytes::from_static(b"12345")));
        queue.done();
        assert!(queue.push(Bytes::from_static(b"12345")));
    }

    #[test]
    fn closed_queue_returns_messages_until_its_deadline() {
        let queue = Queue::new(10);
        queue.push(Bytes::from_static(b"1"));
        queue.close(Instant::now() + Duration::from_secs(60));
        assert!(!queue.push(Bytes::from_static(b"2")));
        assert!(queue.next().is_some());
        assert!(queue.next().is_none());

        let queue = Queue::new(10);
        queue.push(Bytes::from_static(b"1"));
        queue.close(Instant::now());
        assert!(queue.next().is_none());
        assert_eq!(queue.abandon(), 1);
    }

    #[test]
    fn closing_ends_a_pause() {
        let queue = Queue::new(10);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.pause(Duration::from_secs(600), false));
            queue.close(Instant::now());
            assert_eq!(waiting.join().unwrap(), Pause::Over);
        });
    }

    #[test]
    fn abandoned_message_is_counted_once() {
        let queue = Queue::new(10);
        queue.push(Bytes::from_static(b"1"));
        assert!(queue.next().is_some());
        assert!(!queue.wait_for_end(Instant::now()));
        assert_eq!(queue.abandon(), 1);
        assert!(!queue.done());
        queue.end();
        assert!(queue.wait_for_end(Instant::now() + Duration::from_secs(60)));
    }
}
