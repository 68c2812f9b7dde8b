//! The published states of a process that a walk may have used.
//!
//! ```text
//!   batch            n                     n + 1                        n + 2            n + 3
//!   state 7   ──► withdrawn     walks by 7 until then arrive,     walks of those     memory free
//!   state 8         published   children forked before are found  children arrive
//! ```
//!
//! Here n is the last batch that was read by then: while the pipeline is behind, batches wait.
//!
//! Each published state has a unique number, its epoch, which the kernel side copies into the
//! record of each sample. A walk counts if its state was one of the process, and if no mapping on
//! its way had been replaced by then. A mapping that is added where none was changes no walk: one
//! that reaches it stops there.

use std::collections::VecDeque;

/// Number of batches for which walks by a withdrawn state arrive.
const ARRIVING: u64 = 2;

/// Number of batches after which no walk uses a withdrawn state.
pub(super) const UNUSED: u64 = ARRIVING + 1;

/// Maximum number of withdrawn states of a process that are kept.
const MAX_FORMER: usize = 1024;

/// Maximum number of address ranges that are kept; further ones are united with the last.
const MAX_REPLACED: usize = 16;

/// The former states of a process, and what was replaced since they were published.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs {
    /// Epochs of withdrawn states, and the last batches that were read by then.
    former: VecDeque<(u32, u64)>,
    replaced: Vec<Replaced>,
}

/// Addresses whose mapping was replaced by another one.
#[derive(Clone, Debug)]
struct Replaced {
    start: u64,
    end: u64,
    /// The first epoch that may have the new mapping.
    since: u32,
}

impl Epochs {
    /// Adds a withdrawn state, and drops those of which no walk arrives any more. `batch` is the
    /// one that is taken, `read` the last that was read.
    pub(super) fn withdraw(&mut self, epoch: u32, batch: u64, read: u64) {
        while self.former.front().is_some_and(|&(_, withdrawn)| withdrawn + ARRIVING < batch)
            || self.former.len() >= MAX_FORMER
        {
            self.former.pop_front();
        }
        self.former.push_back((epoch, read));
        let oldest = self.former.front().map_or(epoch, |&(epoch, _)| epoch);
        self.replaced.retain(|replaced| is_before(oldest, replaced.since));
    }

    /// Returns `true` if a state was withdrawn so shortly before that walks by it still arrive.
    pub(super) fn has_former(&self, epoch: u32, batch: u64) -> bool {
        self.former.iter().rev().any(|&(former, withdrawn)| former == epoch && batch <= withdrawn + ARRIVING)
    }

    /// Adds addresses whose mapping was replaced. States from epoch `since` on may have the new
    /// one.
    pub(super) fn replace(&mut self, start: u64, end: u64, since: u32) {
        let is_full = self.replaced.len() >= MAX_REPLACED;
        match self.replaced.last_mut() {
            Some(last) if last.since == since && last.start <= start && end <= last.end => {}
            Some(last) if is_full => {
                (last.start, last.end) = (last.start.min(start), last.end.max(end));
                last.since = since;
            }
            _ => self.replaced.push(Replaced { start, end, since }),
        }
    }

    /// Returns `true` if a walk by a state passed a mapping that was replaced since. `touches`
    /// returns `true` if a frame of the walk lies in these addresses.
    pub(super) fn misled(&self, epoch: u32, touches: impl Fn(u64, u64) -> bool) -> bool {
        let mut replaced = self.replaced.iter().filter(|replaced| is_before(epoch, replaced.since));
        replaced.any(|replaced| touches(replaced.start, replaced.end))
    }
}

/// Returns `true` if an epoch is before another one. Their numbers start over at the end.
pub(super) fn is_before(epoch: u32, other: u32) -> bool {
    (epoch.wrapping_sub(other) as i32) < 0
}

/// Returns the epoch that follows another one: never 0, which stands for none.
pub(super) fn next(epoch: u32) -> u32 {
    epoch.wrapping_add(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawn_states_are_those_of_walks_for_two_more_batches() {
        let mut epochs = Epochs::default();
        epochs.withdraw(7, 10, 10);
        assert_eq!([10, 11, 12, 13].map(|batch| epochs.has_former(7, batch)), [true, true, true, false]);
        assert!(!epochs.has_former(8, 10));
        for epoch in 8..2000 {
            epochs.withdraw(epoch, 10, 10);
        }
        assert_eq!(epochs.former.len(), MAX_FORMER);
        epochs.withdraw(2000, 13, 13);
        assert_eq!(epochs.former, [(2000, 13)]);
    }

    #[test]
    fn walks_arrive_behind_batches_that_wait() {
        let mut epochs = Epochs::default();
        epochs.withdraw(7, 10, 14);
        epochs.withdraw(8, 15, 19);
        assert_eq!([15, 16, 17].map(|batch| epochs.has_former(7, batch)), [true, true, false]);
        epochs.withdraw(9, 17, 17);
        assert_eq!(epochs.former, [(8, 19), (9, 17)]);
    }

    #[test]
    fn frames_in_replaced_mappings_mislead_walks_by_former_states() {
        let mut epochs = Epochs::default();
        epochs.withdraw(5, 1, 1);
        epochs.replace(100, 200, 7);
        let at = |address: u64| move |start, end| (start..end).contains(&address);
        let misled = [4, 5, 6, 7, 8].map(|epoch| epochs.misled(epoch, at(150)));
        assert_eq!(misled, [true, true, true, false, false]);
        assert!(!epochs.misled(5, at(200)));
        // The last state that had it is gone.
        epochs.withdraw(9, 9, 9);
        assert!(epochs.replaced.is_empty());
    }

    #[test]
    fn many_replaced_mappings_become_one_range() {
        let mut epochs = Epochs::default();
        for number in 0..100 {
            epochs.replace(number * 1000, number * 1000 + 10, 3);
        }
        assert_eq!(epochs.replaced.len(), MAX_REPLACED);
        let misled = |address| epochs.misled(2, |start, end| (start..end).contains(&address));
        assert_eq!([5, 500, 50_500, 99_005, 99_011].map(misled), [true, false, true, true, false]);
    }

    #[test]
    fn numbers_start_over_after_the_last() {
        assert_eq!([0, 1, u32::MAX].map(next), [1, 2, 1]);
        assert!(is_before(u32::MAX, next(u32::MAX)) && !is_before(1, u32::MAX));
    }
}
