//! Numbers about what was sent and what was not.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// What became of the messages of an exporter. Every message is in one of the numbers from
/// `queued` to `abandoned`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Messages that wait, or are on their way.
    pub queued: u64,
    /// Messages that wait on disk, those of earlier runs included.
    pub spooled: u64,
    /// Messages that the collector took, also if only in part.
    pub delivered: u64,
    /// Messages dropped because the queue was full.
    pub queue_full: u64,
    /// Messages dropped because they are larger than anybody takes.
    pub too_large: u64,
    /// Messages dropped because the collector refused them.
    pub refused: u64,
    /// Messages dropped because they could not be delivered for too long.
    pub gave_up: u64,
    /// Messages dropped because the disk couldn't take them or give them back, or had no room left for them.
    pub spool_failed: u64,
    /// Messages dropped because the exporter came to its end.
    pub abandoned: u64,
    /// Samples that the collector rejected out of messages that it took.
    pub rejected_samples: u64,
    /// Attempts after the first ones.
    pub retries: u64,
    /// Bytes of bodies sent, compressed as they were, attempts that failed included.
    pub bytes: u64,
    /// What went wrong last; empty if nothing did.
    pub last_error: String,
}

impl Stats {
    /// Messages that were dropped, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.queue_full + self.too_large + self.refused + self.gave_up + self.spool_failed + self.abandoned
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { queued, spooled, delivered, retries, bytes, .. } = self;
        let dropped = self.dropped();
        write!(
            f,
            "{delivered} delivered, {queued} queued, {spooled} on disk, {dropped} dropped, {retries} retries, {bytes} bytes"
        )?;
        if self.last_error.is_empty() { Ok(()) } else { write!(f, "; last: {}", self.last_error) }
    }
}

/// The numbers as they grow.
#[derive(Debug, Default)]
pub(super) struct Counters {
    delivered: AtomicU64,
    queue_full: AtomicU64,
    too_large: AtomicU64,
    refused: AtomicU64,
    gave_up: AtomicU64,
    spooled: AtomicU64,
    spool_failed: AtomicU64,
    abandoned: AtomicU64,
    rejected_samples: AtomicU64,
    retries: AtomicU64,
    bytes: AtomicU64,
    last_error: Mutex<String>,
}

impl Counters {
    pub(super) fn snapshot(&self, queued: u64) -> Stats {
        Stats {
            queued,
            delivered: self.delivered.load(Relaxed),
            queue_full: self.queue_full.load(Relaxed),
            too_large: self.too_large.load(Relaxed),
            refused: self.refused.load(Relaxed),
            gave_up: self.gave_up.load(Relaxed),
            spooled: self.spooled.load(Relaxed),
            spool_failed: self.spool_failed.load(Relaxed),
            abandoned: self.abandoned.load(Relaxed),
            rejected_samples: self.rejected_samples.load(Relaxed),
            retries: self.retries.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            last_error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    pub(super) fn delivered(&self, rejected_samples: u64) {
        self.delivered.fetch_add(1, Relaxed);
        self.rejected_samples.fetch_add(rejected_samples, Relaxed);
    }

    pub(super) fn queue_full(&self) {
        self.queue_full.fetch_add(1, Relaxed);
    }

    pub(super) fn too_large(&self) {
        self.too_large.fetch_add(1, Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn gave_up(&self) {
        self.gave_up.fetch_add(1, Relaxed);
    }

    pub(super) fn spooled(&self, messages: u64) {
        self.spooled.store(messages, Relaxed);
    }

    pub(super) fn spool_failed(&self) {
        self.spool_failed.fetch_add(1, Relaxed);
    }

    pub(super) fn abandoned(&self, messages: u64) {
        self.abandoned.fetch_add(messages, Relaxed);
    }

    pub(super) fn retry(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn went_wrong(&self, what: String) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}
