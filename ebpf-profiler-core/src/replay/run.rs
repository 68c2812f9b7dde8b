//! A replay on its way.

use std::fmt;
use std::time::SystemTime;

use ebpf_programs::abi::reason::Counter;

use super::kernel_names::RecordedNames;
use super::play::{Input, from_1970};
use super::source::{Place, RecordedSource};
use crate::pipeline::{Pipeline, PipelineStats};
use crate::profile::Profile;
use crate::sample::{Batch, SourceError};

/// The profiles of a recording, one after the other.
///
/// After an error there are no more.
pub struct Profiles(pub(super) Run);

/// Source, pipeline and names, driven by who asks for profiles.
pub(super) struct Run {
    source: RecordedSource<Box<dyn Input>>,
    pipeline: Pipeline,
    names: RecordedNames,
    batch: Batch,
    since: SystemTime,
    now: SystemTime,
    /// Ticks that were lost, up to now and up to the last profile.
    lost: (u64, u64),
    /// Whether a batch was taken since the last profile.
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
            lost: (0, 0),
            pending: false,
            ended: false,
        }
    }

    /// The next profile; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Profile>, SourceError> {
        while !self.ended {
            let flushed = self.advance()?;
            if flushed || self.ended && self.pending {
                return Ok(Some(self.finish()));
            }
        }
        Ok(None)
    }

    /// Everything up to the end as one profile.
    pub(super) fn whole(mut self) -> Result<Profile, SourceError> {
        while !self.ended {
            self.advance()?;
        }
        Ok(self.finish())
    }

    pub(super) fn stats(&self) -> PipelineStats {
        self.pipeline.stats()
    }

    /// Goes to the next place; whether a profile was finished there.
    fn advance(&mut self) -> Result<bool, SourceError> {
        // What goes wrong ends it.
        self.ended = true;
        let place = self.source.advance(&mut self.batch)?;
        self.ended = matches!(place, Place::End(_));
        self.take();
        match place {
            Place::Batch => Ok(false),
            Place::Flush(flush) => {
                self.now = from_1970(flush.time);
                self.lost.0 = self.lost.0.max(flush.counts.get(Counter::RingFull));
                Ok(true)
            }
            Place::End(end) => {
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
        pending.record_loss(Counter::RingFull.text(), self.lost.0 - self.lost.1);
        pending.set_time(self.since, self.now);
        (self.since, self.lost.1, self.pending) = (self.now, self.lost.0, false);
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
