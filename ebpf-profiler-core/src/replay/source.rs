//! The recorded stream of events.

use std::io::Read;
use std::time::Duration;

use super::decode;
use super::reader::Reader;
use super::record::{End, Flush, Settings, Start, Step};
use crate::sample::{Batch, Counts, Source, SourceError};

/// Maximum size of one batch in bytes; the kernel's buffers hold less by far.
const MAX_BATCH: usize = 1 << 30;

/// A recorded stream of events.
pub(super) struct RecordedSource<R> {
    reader: Reader<R>,
    counts: Counts,
    /// Offset from the time of an event to nanoseconds since 1970.
    clock: u64,
    /// Time of the latest event.
    latest: u64,
}

/// A boundary in the stream of events.
#[derive(Debug, PartialEq)]
pub(super) enum Boundary {
    /// End of a batch.
    Batch,
    /// End of a profile.
    Flush(Flush),
    /// Change of settings, after the end of a profile.
    Settings(Settings),
    /// End of the stream.
    End(End),
}

impl<R: Read> RecordedSource<R> {
    /// Continues after the start record.
    pub(super) fn new(reader: Reader<R>, start: &Start) -> RecordedSource<R> {
        RecordedSource { reader, counts: Counts::default(), clock: start.clock, latest: 0 }
    }

    /// Appends events to `batch` up to the next boundary and returns it.
    ///
    /// A truncated recording ends early, at the time of its latest event.
    pub(super) fn advance(&mut self, batch: &mut Batch) -> Result<Boundary, SourceError> {
        loop {
            let Some((kind, body)) = self.reader.next()? else {
                let time = if self.latest == 0 { 0 } else { self.latest.wrapping_add(self.clock) };
                return Ok(Boundary::End(End { time, is_early: true }));
            };
            match decode::step(kind, body)? {
                Some(Step::Tick(time, words)) => {
                    self.latest = self.latest.max(time);
                    batch.push_words(&words);
                }
                Some(Step::Life(event)) => {
                    self.latest = self.latest.max(event.time);
                    batch.push_life(event);
                }
                Some(Step::Batch) => return Ok(Boundary::Batch),
                Some(Step::Flush(flush)) => {
                    self.counts = flush.counts.clone();
                    return Ok(Boundary::Flush(flush));
                }
                Some(Step::Settings(settings)) => return Ok(Boundary::Settings(settings)),
                Some(Step::End(end)) => return Ok(Boundary::End(end)),
                None => {}
            }
            if batch.size() > MAX_BATCH {
                return Err(SourceError::Format("a batch exceeds the maximum size"));
            }
        }
    }
}

impl<R: Read + Send> Source for RecordedSource<R> {
    fn next(&mut self, _: Duration, batch: &mut Batch) -> Result<bool, SourceError> {
        loop {
            match self.advance(batch)? {
                Boundary::Batch => return Ok(true),
                Boundary::Flush(_) | Boundary::Settings(_) => {}
                Boundary::End(_) => return Ok(false),
            }
        }
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }
}
