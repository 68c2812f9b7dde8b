//! Batches between the drain thread and the pipeline thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Maximum number of batches that wait.
pub(super) const BATCHES: usize = 64;

/// Maximum size in bytes of the batches that the pipeline has not finished.
const BYTES: usize = 32 << 20;

/// Number and size of the batches that the pipeline thread has not finished.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Batches that it has not begun.
    batches: AtomicUsize,
    bytes: AtomicUsize,
    /// The pipeline thread has ended.
    is_closed: AtomicBool,
}

impl Waiting {
    /// Returns the number of batches that the pipeline thread has not begun.
    pub(super) fn count(&self) -> usize {
        self.batches.load(Ordering::Relaxed)
    }

    /// Returns `true` if a batch of this size may be sent. The first one may have any size, and after
    /// the end of the pipeline thread each one: sending fails then, and nothing is to wait for.
    pub(super) fn has_room(&self, size: usize) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let fits = self.count() < BATCHES && (bytes == 0 || bytes.saturating_add(size) <= BYTES);
        fits || self.is_closed.load(Ordering::Relaxed)
    }

    /// Returns `true` if the pipeline thread needs seconds for what waits, where CPU time is scarce.
    pub(super) fn is_much(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > BYTES / 4
    }

    /// Records that the pipeline thread has ended.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Adds a batch that is sent.
    pub(super) fn add(&self, size: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(size, Ordering::Relaxed);
    }

    /// Subtracts a batch that couldn't be sent.
    pub(super) fn withdraw(&self, size: usize) {
        self.begin();
        self.finish(size);
    }

    /// Subtracts a batch that is begun; its size counts until it is finished. Returns `true` if further
    /// ones wait.
    pub(super) fn begin(&self) -> bool {
        self.batches.fetch_sub(1, Ordering::Relaxed) > 1
    }

    /// Subtracts the size of a batch that is finished.
    pub(super) fn finish(&self, size: usize) {
        self.bytes.fetch_sub(size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_wait_up_to_a_number_and_a_size() {
        let waiting = Waiting::default();
        assert!(waiting.has_room(2 * BYTES), "a burst that came at once");
        waiting.add(BYTES - 10);
        assert!(waiting.has_room(10) && !waiting.has_room(11));
        assert!(waiting.is_much());
        assert!(!waiting.begin() && !waiting.has_room(11), "it still occupies its memory");
        waiting.finish(BYTES - 10);
        assert!(waiting.has_room(11) && !waiting.is_much());
        (0..BATCHES).for_each(|_| waiting.add(1));
        assert!(!waiting.has_room(1));
        assert!(waiting.begin() && waiting.has_room(1));
        waiting.add(1);
        waiting.close();
        assert!(waiting.has_room(1));
    }
}
