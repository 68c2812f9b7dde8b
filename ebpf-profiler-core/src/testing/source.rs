//! A source of given events.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sample::{Batch, Counts, Source, SourceError};

/// A source that returns given batches, one per call, and then ends.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ebpf_profiler_core::internal::sample::{Batch, Source};
/// use ebpf_profiler_core::internal::testing::{FakeSource, FakeTick};
///
/// let mut batch = Batch::default();
/// batch.push_tick(&FakeTick::walked(1_000, 7, "cat", &[0x401000]).bytes());
/// let mut source = FakeSource::new([batch]);
///
/// let mut batch = Batch::default();
/// assert!(source.next(Duration::ZERO, &mut batch)?);
/// assert_eq!(batch.ticks().count(), 1);
/// assert!(!source.next(Duration::ZERO, &mut batch)?);
/// # Ok::<(), ebpf_profiler_core::internal::sample::SourceError>(())
/// ```
#[derive(Debug, Default)]
pub struct FakeSource {
    batches: VecDeque<Batch>,
    counts: Counts,
}

impl FakeSource {
    /// Creates a source that returns these batches.
    pub fn new(batches: impl IntoIterator<Item = Batch>) -> FakeSource {
        FakeSource { batches: batches.into_iter().collect(), counts: Counts::default() }
    }

    /// Sets the counters that the source reports.
    #[must_use = "returns the changed source"]
    pub fn counting(self, counts: Counts) -> FakeSource {
        FakeSource { counts, ..self }
    }
}

impl Source for FakeSource {
    fn next(&mut self, _: Duration, batch: &mut Batch) -> Result<bool, SourceError> {
        let Some(next) = self.batches.pop_front() else { return Ok(false) };
        for words in next.ticks() {
            let record: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            batch.push_tick(&record);
        }
        next.life().iter().for_each(|event| batch.push_life(event.clone()));
        Ok(true)
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }
}
