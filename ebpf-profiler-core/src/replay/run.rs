//! A running replay.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::decode::from_1970;
use super::kernel_names::RecordedNames;
use super::reader::Input;
use super::record::Settings;
use super::source::{Boundary, RecordedSource};
use crate::pipeline::{Pipeline, PipelineStats};
use crate::profile::Profile;
use crate::sample::{Batch, Counts, SourceError};

/// Iterator over the profiles of a recording, which ends after the first error.
pub struct Profiles(pub(super) Run);

/// Source, pipeline and names, advanced by the caller.
pub(super) struct Run {
    source: RecordedSource<Box<dyn Input>>,
    pipeline: Pipeline,
    names: RecordedNames,
    batch: Batch,
    since: SystemTime,
    now: SystemTime,
    /// Lost samples up to now, and up to the previous profile.
    lost: [[u64; Counts::LOSSES.len()]; 2],
    /// `true` if the pipeline took a batch since the previous profile.
    pending: bool,
    ended: bool,
}

impl Run {
    pub(super) fn new(
        source: RecordedSource<Box<dyn Input>>,
        pipeline: Pipeline,
        names: RecordedNames,
        start: SystemTime,
    ) -> Run {
        Run {
            source,
            pipeline,
            names,
            batch: Batch::default(),
            since: start,
            now: start,
            lost: [[0; Counts::LOSSES.len()]; 2],
            pending: false,
            ended: false,
        }
    }

    /// Returns the next profile; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Profile>, SourceError> {
        while !self.ended {
            let flushed = self.advance()?;
            if flushed || self.ended && self.pending {
                return Ok(Some(self.finish()));
            }
        }
        Ok(None)
    }

    /// Replays up to the end into one profile.
    pub(super) fn whole(mut self) -> Result<Profile, SourceError> {
        while !self.ended {
            self.advance()?;
        }
        Ok(self.finish())
    }

    pub(super) fn stats(&self) -> PipelineStats {
        self.pipeline.stats()
    }

    /// Replays up to the next boundary. Returns `true` if a profile ends there.
    fn advance(&mut self) -> Result<bool, SourceError> {
        // Stays so after an error.
        self.ended = true;
        let boundary = self.source.advance(&mut self.batch)?;
        self.ended = matches!(boundary, Boundary::End(_));
        self.take();
        match boundary {
            Boundary::Batch => Ok(false),
            Boundary::Flush(flush) => {
                self.now = from_1970(flush.time);
                for (lost, now) in self.lost[0].iter_mut().zip(flush.counts.losses()) {
                    *lost = now.max(*lost);
                }
                Ok(true)
            }
            Boundary::Settings(Settings { period, pids }) => {
                if !self.pipeline.set_period(Duration::from_nanos(period)) {
                    self.ended = true;
                    return Err(SourceError::Format(
                        "the frequency changed in it; replay its profiles one by one: Replay::profiles",
                    ));
                }
                self.pipeline.registry().set_filter(&pids);
                self.pipeline.drop_held();
                Ok(false)
            }
            Boundary::End(end) => {
                self.now = self.now.max(from_1970(end.time));
                Ok(false)
            }
        }
    }

    fn take(&mut self) {
        if !self.batch.is_empty() {
            self.pipeline.take(&mut self.batch);
            self.batch.clear();
            self.pending = true;
        }
    }

    fn finish(&mut self) -> Profile {
        let mut pending = self.pipeline.finish();
        let [now, before] = self.lost;
        for (index, counter) in Counts::LOSSES.iter().enumerate() {
            pending.record_loss(counter.text(), now[index] - before[index]);
        }
        pending.set_time(self.since, self.now);
        (self.since, self.lost[1], self.pending) = (self.now, now, false);
        pending.symbolize(&mut self.names)
    }
}

impl Iterator for Profiles {
    type Item = Result<Profile, SourceError>;

    fn next(&mut self) -> Option<Result<Profile, SourceError>> {
        self.0.next().transpose()
    }
}

impl fmt::Debug for Profiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiles").field("stats", &self.0.stats()).finish_non_exhaustive()
    }
}
