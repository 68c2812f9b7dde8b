//! When to try again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long to wait between attempts, and when to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) first: Duration,
    pub(super) longest: Duration,
    pub(super) give_up: Duration,
}

/// The values that collectors themselves use when they export.
impl Default for Policy {
    fn default() -> Policy {
        Policy {
            first: Duration::from_secs(5),
            longest: Duration::from_secs(30),
            give_up: Duration::from_secs(300),
        }
    }
}

/// The waits between attempts: each half as long again as the one before, and none exactly so long.
///
/// Without the chance in it, all machines that lost one collector would come back at the same moment.
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

    /// Begins with the first wait again.
    pub(super) fn reset(&mut self) {
        self.next = self.policy.first;
    }

    /// The longest wait, without the part that is chance.
    pub(super) fn longest(&self) -> Duration {
        self.policy.longest
    }

    /// How long to wait now, `after` at least if the other side said so; none when it is time to give up.
    ///
    /// `elapsed` is how long the message has been tried for.
    pub(super) fn wait(&mut self, elapsed: Duration, after: Option<Duration>) -> Option<Duration> {
        self.attempts += 1;
        let chance = self.random.hash_one(self.attempts) % 1_000;
        let jittered = self.next.mul_f64(0.5 + chance as f64 / 1_000.0);
        self.next = self.next.mul_f64(1.5).min(self.policy.longest);
        let wait = jittered.max(after.unwrap_or_default());
        (elapsed.saturating_add(wait) <= self.policy.give_up).then_some(wait.min(LONGEST))
    }
}

/// Whoever wants to be left alone for longer is asked again all the same.
const LONGEST: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end() {
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
    fn the_other_side_may_want_longer() {
        let mut backoff = Backoff::new(Policy::default());
        let after = Some(Duration::from_secs(100));
        assert_eq!(backoff.wait(Duration::ZERO, after), after);
        assert_eq!(backoff.wait(Duration::from_secs(201), after), None);
        assert_eq!(backoff.wait(Duration::from_secs(1), Some(Duration::MAX)), None);
        let endless = Policy { give_up: Duration::MAX, ..Policy::default() };
        assert_eq!(Backoff::new(endless).wait(Duration::from_secs(1), Some(Duration::MAX)), Some(LONGEST));
    }
}
