//! The deadline of a profiler that ends.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::pipeline::Urgency;

/// The time at which a profiler was asked to end, and the time that each stage has from then on.
///
/// Before [`Ending::begin`] no stage has a deadline.
#[derive(Debug)]
pub(super) struct Ending {
    limit: Duration,
    begun: OnceLock<Instant>,
}

/// A stage of the work that is left at the end. Each stage leaves time for those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Further unwind tables: three eighths of the time.
    Tables,
    /// Waiting batches: half of the time.
    Pipeline,
    /// Names of the last profile: three quarters.
    Names,
    /// Return of the last profile, without names if they are not there yet: seven eighths.
    Last,
    /// Delivery to the sinks: all of it.
    Sinks,
}

impl Ending {
    pub(super) fn new(limit: Duration) -> Ending {
        Ending { limit, begun: OnceLock::new() }
    }

    /// Starts the time; only the first call has an effect.
    pub(super) fn begin(&self) {
        self.begun.get_or_init(Instant::now);
    }

    /// Returns `true` after [`Ending::begin`].
    pub(super) fn has_begun(&self) -> bool {
        self.begun.get().is_some()
    }

    /// Returns the time that is left for samples.
    pub(super) fn urgency(&self) -> Urgency {
        match self.begun.get() {
            None => Urgency::None,
            Some(begun) if begun.elapsed() < self.limit(Stage::Pipeline) => Urgency::Ending,
            Some(_) => Urgency::Over,
        }
    }

    /// Returns `true` once the deadline of `stage` has passed.
    pub(super) fn is_past(&self, stage: Stage) -> bool {
        self.begun.get().is_some_and(|begun| begun.elapsed() >= self.limit(stage))
    }

    /// Returns the time that `stage` has left; the whole limit before [`Ending::begin`].
    pub(super) fn left(&self, stage: Stage) -> Duration {
        let elapsed = self.begun.get().map_or(Duration::ZERO, Instant::elapsed);
        self.limit(stage).saturating_sub(elapsed)
    }

    fn limit(&self, stage: Stage) -> Duration {
        match stage {
            Stage::Tables => self.limit / 8 * 3,
            Stage::Pipeline => self.limit / 2,
            Stage::Names => self.limit / 4 * 3,
            Stage::Last => self.limit / 8 * 7,
            Stage::Sinks => self.limit,
        }
    }
}
