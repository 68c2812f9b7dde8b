//! Counters of the exporter.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Counters of an [`Exporter`](crate::Exporter).
///
/// Every message is in exactly one of the counters from `queued` to `abandoned`. A message whose
/// answer was lost may have reached the collector all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Messages in memory, including the one that is being sent.
    pub queued: u64,
    /// Messages in the spool, including those of earlier runs.
    pub spooled: u64,
    /// Messages that the collector accepted completely or in part.
    pub delivered: u64,
    /// Messages dropped because the queue was full.
    pub queue_full: u64,
    /// Messages dropped because they exceed 64 MiB or the collector's limit.
    pub too_large: u64,
    /// Messages dropped because the collector refused them.
    pub refused: u64,
    /// Messages dropped because they were not delivered within the time that [`Settings::retry`]
    /// allows.
    ///
    /// [`Settings::retry`]: crate::Settings::retry
    pub gave_up: u64,
    /// Messages dropped because the spool was full, or could not be written or read.
    pub spool_failed: u64,
    /// Messages dropped because the flush timeout passed.
    pub abandoned: u64,
    /// Profiles that the collector rejected from messages that it accepted, as it says itself
    /// (`rejected_profiles`).
    pub rejected_profiles: u64,
    /// Messages that were divided because the collector found them too large. Each half then counts
    /// as a message, and the divided one in no other counter.
    pub divided: u64,
    /// Number of repeated attempts.
    pub retries: u64,
    /// Compressed bytes of all attempts, including failed ones.
    pub bytes: u64,
    /// The last error; empty if there was none.
    pub last_error: String,
}

impl Stats {
    /// Returns the number of dropped messages.
    pub fn dropped(&self) -> u64 {
        self.reasons().iter().map(|(count, _)| count).sum()
    }

    fn reasons(&self) -> [(u64, &'static str); 6] {
        [
            (self.queue_full, "queue full"),
            (self.too_large, "too large"),
            (self.refused, "refused"),
            (self.gave_up, "not delivered in time"),
            (self.spool_failed, "disk"),
            (self.abandoned, "left at the end"),
        ]
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { queued, spooled, delivered, retries, bytes, .. } = self;
        let dropped = self.dropped();
        write!(f, "{delivered} delivered, {queued} queued, {spooled} on disk, {dropped} dropped")?;
        let reasons = self.reasons().into_iter().filter(|(count, _)| *count > 0);
        for (index, (count, reason)) in reasons.enumerate() {
            write!(f, "{}{count} {reason}", if index == 0 { " (" } else { ", " })?;
        }
        write!(f, "{}, {retries} retries, {bytes} bytes", if dropped == 0 { "" } else { ")" })?;
        if self.divided > 0 {
            write!(f, ", {} divided", self.divided)?;
        }
        if self.rejected_profiles > 0 {
            write!(f, ", {} profiles rejected", self.rejected_profiles)?;
        }
        if self.last_error.is_empty() { Ok(()) } else { write!(f, "; last: {}", self.last_error) }
    }
}

/// The counters that the exporter and its worker share.
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
    rejected_profiles: AtomicU64,
    divided: AtomicU64,
    retries: AtomicU64,
    bytes: AtomicU64,
    /// Size of the smallest message that the collector found too large; 0 if there was none.
    refused_size: AtomicUsize,
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
            rejected_profiles: self.rejected_profiles.load(Relaxed),
            divided: self.divided.load(Relaxed),
            retries: self.retries.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            last_error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    pub(super) fn delivered(&self, rejected_profiles: u64) {
        self.delivered.fetch_add(1, Relaxed);
        self.rejected_profiles.fetch_add(rejected_profiles, Relaxed);
    }

    pub(super) fn queue_full(&self) {
        self.queue_full.fetch_add(1, Relaxed);
    }

    pub(super) fn too_large(&self) {
        self.too_large.fetch_add(1, Relaxed);
    }

    pub(super) fn divided(&self) {
        self.divided.fetch_add(1, Relaxed);
    }

    /// Records the size of a message that the collector found too large.
    pub(super) fn refused_size(&self, bytes: usize) {
        let smallest = |size| (size == 0 || bytes < size).then_some(bytes);
        // An error means that the recorded size is smaller.
        let _ = self.refused_size.fetch_update(Relaxed, Relaxed, smallest);
    }

    /// Returns the size limit for further messages: half of the smallest one that was too large.
    pub(super) fn limit(&self) -> usize {
        match self.refused_size.load(Relaxed) {
            0 => usize::MAX,
            size => size / 2,
        }
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

    pub(super) fn set_error(&self, error: String) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_lists_dropped_messages_by_reason() {
        let mut stats = Stats { delivered: 7, queued: 1, bytes: 100, ..Stats::default() };
        let line = "7 delivered, 1 queued, 0 on disk, 0 dropped, 0 retries, 100 bytes";
        assert_eq!(stats.to_string(), line);
        (stats.refused, stats.queue_full, stats.rejected_profiles) = (2, 1, 3);
        stats.last_error = "no".into();
        let line = "7 delivered, 1 queued, 0 on disk, 3 dropped (1 queue full, 2 refused), 0 retries, 100 bytes, \
                    3 profiles rejected; last: no";
        assert_eq!(stats.to_string(), line);
    }
}
