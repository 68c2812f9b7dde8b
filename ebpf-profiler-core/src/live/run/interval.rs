//! Intervals between the profiles for the sinks.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// An endless sequence of intervals of about the same length, varied at random.
#[derive(Debug)]
pub(super) struct Interval {
    length: Duration,
    /// Largest deviation, as a share of `length`.
    jitter: f64,
    random: RandomState,
    turn: u64,
}

impl Interval {
    pub(super) fn new(length: Duration, jitter: f64) -> Interval {
        Interval { length: length.min(MAX_INTERVAL), jitter, random: RandomState::new(), turn: 0 }
    }

    /// Returns the next interval.
    pub(super) fn next(&mut self) -> Duration {
        self.turn += 1;
        // From -1 to 1.
        let random = (self.random.hash_one(self.turn) % 2_001) as f64 / 1_000.0 - 1.0;
        self.length.mul_f64((1.0 + self.jitter * random).max(MIN_SHARE))
    }
}

/// Longest interval: later times may not be representable.
const MAX_INTERVAL: Duration = Duration::from_secs(365 * 86_400);

/// Shortest interval with a jitter of 1, as a share of the length.
const MIN_SHARE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_in_its_bounds_and_around_the_middle() {
        let mut interval = Interval::new(Duration::from_secs(5), 0.2);
        let lengths: Vec<_> = (0..1_000).map(|_| interval.next().as_secs_f64()).collect();
        assert!(lengths.iter().all(|length| (4.0..=6.0).contains(length)));
        assert!(lengths.iter().any(|length| *length < 4.5) && lengths.iter().any(|length| *length > 5.5));
        let mean = lengths.iter().sum::<f64>() / 1_000.0;
        assert!((4.8..5.2).contains(&mean), "{mean}");
    }

    #[test]
    fn full_jitter_leaves_a_tenth_of_the_interval() {
        let mut interval = Interval::new(Duration::from_secs(5), 1.0);
        assert!((0..1_000).all(|_| interval.next() >= Duration::from_millis(500)));
    }

    #[test]
    fn without_jitter_intervals_are_equal() {
        let mut interval = Interval::new(Duration::from_secs(5), 0.0);
        assert!((0..10).all(|_| interval.next() == Duration::from_secs(5)));
    }
}
