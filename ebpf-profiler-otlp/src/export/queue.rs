//! Messages that wait to be sent, in bounded memory.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// First in, first out; what finds no room is not taken.
#[derive(Debug)]
pub(super) struct Queue {
    most_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Bytes>,
    /// Of the messages, and of the one that is being sent.
    bytes: usize,
    /// How much of that is being sent.
    sending: usize,
    /// In how many messages: one, or the parts of one.
    parts: u64,
    /// Nothing comes any more, and until when what is left may be sent.
    closed: Option<Instant>,
}

/// Why a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// It is time for the next attempt.
    Over,
    /// A message came in.
    Message,
}

impl State {
    fn is_over(&self) -> bool {
        self.closed.is_some_and(|end| Instant::now() >= end)
    }

    fn take(&mut self) -> Option<Bytes> {
        let message = self.messages.pop_front()?;
        (self.sending, self.parts) = (message.len(), 1);
        Some(message)
    }
}

impl Queue {
    pub(super) fn new(most_bytes: usize) -> Queue {
        Queue { most_bytes, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message if there is room for it.
    pub(super) fn push(&self, message: Bytes) -> bool {
        let mut state = self.lock();
        if state.closed.is_some() || state.bytes + message.len() > self.most_bytes {
            return false;
        }
        state.bytes += message.len();
        state.messages.push_back(message);
        self.changed.notify_all();
        true
    }

    /// Gives the next message, waiting for one; none when the queue is closed and empty, or its time is over.
    ///
    /// The message takes room until it is [`done`](Queue::done).
    pub(super) fn next(&self) -> Option<Bytes> {
        let mut state = self.lock();
        while state.messages.is_empty() && state.closed.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_over() { None } else { state.take() }
    }

    /// Gives the next message if there is one and time for it.
    pub(super) fn try_next(&self) -> Option<Bytes> {
        let mut state = self.lock();
        if state.is_over() { None } else { state.take() }
    }

    /// Gives the next message if there is one, also when time is over.
    pub(super) fn take(&self) -> Option<Bytes> {
        self.lock().take()
    }

    /// Whether the queue is closed and its time over.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// Whatever became of the message that was given last, or of the last of its parts, it takes no room any more.
    pub(super) fn done(&self) {
        let mut state = self.lock();
        state.parts = state.parts.saturating_sub(1);
        if state.parts == 0 {
            state.bytes -= std::mem::take(&mut state.sending);
        }
    }

    /// The message that was given last, or a part of it, has become two.
    pub(super) fn divided(&self) {
        self.lock().parts += 1;
    }

    /// Waits before the next attempt; if `wake` is set, only until there is a message.
    ///
    /// In a closed queue the waits are short: what is left is to be tried before time is over.
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
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        let end = state.closed.unwrap_or(until).min(until);
        drop(state);
        std::thread::sleep(end.saturating_duration_since(Instant::now()).min(LAST_PAUSE));
        Pause::Over
    }

    /// Until when an attempt may take that would otherwise end at `deadline`.
    pub(super) fn shorten(&self, deadline: Instant) -> Instant {
        self.lock().closed.map_or(deadline, |end| end.min(deadline))
    }

    /// Takes nothing any more; what is there may be sent until `end`.
    pub(super) fn close(&self, end: Instant) {
        self.lock().closed = Some(end);
        self.changed.notify_all();
    }

    /// Drops everything and says how many messages that were, the one that is being sent not included.
    pub(super) fn abandon(&self) -> u64 {
        let mut state = self.lock();
        let left = state.messages.len() as u64;
        state.messages.clear();
        (state.bytes, state.sending, state.parts) = (0, 0, 0);
        left
    }

    /// How many messages there are, the one that is being sent included.
    pub(super) fn len(&self) -> u64 {
        let state = self.lock();
        state.messages.len() as u64 + state.parts
    }
}

/// Between attempts when the queue is closed and time is short.
const LAST_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_until_a_message_is_done() {
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
    fn a_closed_queue_gives_what_it_has_while_there_is_time() {
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
}
