//! The stream of events, as the pipeline was given it.

use std::io::Read;
use std::time::Duration;

use super::decode;
use super::reader::Reader;
use super::record::{End, Flush, Step};
use crate::sample::{Batch, Counts, Source, SourceError};

/// The most memory that one batch can take; what the kernel's buffers hold is less by far.
const MAX_BATCH: usize = 1 << 30;

/// A recorded stream of events.
pub(super) struct RecordedSource<R> {
    reader: Reader<R>,
    counts: Counts,
}

/// Where a stream of events stands.
#[derive(Debug, PartialEq)]
pub(super) enum Place {
    /// A batch is complete.
    Batch,
    /// A profile ended here.
    Flush(Flush),
    /// Nothing comes any more.
    End(End),
}

impl<R: Read> RecordedSource<R> {
    /// Goes on behind the record that says how it began.
    pub(super) fn new(reader: Reader<R>) -> RecordedSource<R> {
        RecordedSource { reader, counts: Counts::default() }
    }

    /// Reads up to the next place that matters; the events on the way go into `batch`.
    pub(super) fn advance(&mut self, batch: &mut Batch) -> Result<Place, SourceError> {
        loop {
            let (kind, body) = self.reader.next()?;
            match decode::step(kind, body)? {
                Some(Step::Tick(record)) => batch.push_tick(record),
                Some(Step::Life(event)) => batch.push_life(event),
                Some(Step::Batch) => return Ok(Place::Batch),
                Some(Step::Flush(flush)) => {
                    self.counts = flush.counts.clone();
                    return Ok(Place::Flush(flush));
                }
                Some(Step::End(end)) => return Ok(Place::End(end)),
                None => {}
            }
            if batch.size() > MAX_BATCH {
                return Err(SourceError::Format("a batch is larger than any that can be"));
            }
        }
    }
}

impl<R: Read + Send> Source for RecordedSource<R> {
    fn next(&mut self, _: Duration, batch: &mut Batch) -> Result<bool, SourceError> {
        loop {
            match self.advance(batch)? {
                Place::Batch => return Ok(true),
                Place::Flush(_) => {}
                Place::End(_) => return Ok(false),
            }
        }
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }
}
