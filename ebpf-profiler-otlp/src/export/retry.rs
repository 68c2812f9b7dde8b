//! Back-off between attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The times between attempts and the time after which a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) first: Duration,
    pub(super) longest: Duration,
    pub(super) give_up: Duration,
}

/// The defaults of the OpenTelemetry Collector's exporters.
impl Default for Policy {
    fn default() -> Policy {
        Policy {
            first: Duration::from_secs(5),
            longest: Duration::from_secs(30),
            give_up: Duration::from_secs(300),
        }
    }
}

/// Exponential back-off: each wait is 1.5 times the one before, multiplied by a random factor of
/// 0.5 to 1.5.
///
/// Without the random factor, all machines that lost one collector would reconnect at the same
/// moment.
#[derive(Debug)]
pub(super) struct Backoff {
    policy: Policy,
    next: Duration,
    random: RandomState,
    attempts: u64,
}

impl Backoff {
    pub(super) fn new(policy: Policy) -> Backoff {
        Backoff { policy, next: policy.first, random: RandomState::new(), attempts: 0 }
    }

    /// Restarts with the first wait.
    pub(super) fn reset(&mut self) {
        self.next = self.policy.first;
    }

    /// Returns the longest wait, without the random factor.
    pub(super) fn longest(&self) -> Duration {
        self.policy.longest
    }

    /// Returns the next wait, at least the server's `after`; `None` if it would exceed the time of
    /// the message.
    ///
    /// `elapsed` is the time since the first attempt.
    pub(super) fn wait(&mut self, elapsed: Duration, after: Option<Duration>) -> Option<Duration> {
        self.attempts += 1;
        let random = self.random.hash_one(self.attempts) % 1_000;
        let jittered = self.next.mul_f64(0.5 + random as f64 / 1_000.0);
        self.next = self.next.mul_f64(1.5).min(self.policy.longest);
        let wait = jittered.max(after.unwrap_or_default());
        (elapsed.saturating_add(wait) <= self.policy.give_up).then_some(wait.min(MAX_RETRY_AFTER))
    }
}

/// Cap on the server's `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_the_limit() {
        let mut backoff = Backoff::new(Policy::default());
        let (mut elapsed, mut waits) = (Duration::ZERO, Vec::new());
        while let Some(wait) = backoff.wait(elapsed, None) {
            elapsed += wait;
            waits.push(wait);
        }
        assert!(waits.len() > 6 && elapsed > Duration::from_secs(250), "{waits:?}");
        assert!(waits[0] >= Duration::from_millis(2_500) && waits[0] <= Duration::from_millis(7_500));
        assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(45)));
    }

    #[test]
    fn retry_after_extends_the_wait_up_to_a_cap() {
        let mut backoff = Backoff::new(Policy::default());
        let after = Some(Duration::from_secs(100));
        assert_eq!(backoff.wait(Duration::ZERO, after), after);
        assert_eq!(backoff.wait(Duration::from_secs(201), after), None);
        assert_eq!(backoff.wait(Duration::from_secs(1), Some(Duration::MAX)), None);
        let endless = Policy { give_up: Duration::MAX, ..Policy::default() };
        assert_eq!(
            Backoff::new(endless).wait(Duration::from_secs(1), Some(Duration::MAX)),
            Some(MAX_RETRY_AFTER)
        );
    }
}
