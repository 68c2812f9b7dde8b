//! Allocation of places in the arena.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use ebpf_programs::abi::arena::{BLOCK_UNITS, UNIT};

/// Hands out places in the arena, from the smallest free stretch that has one.
///
/// A freed place is reused after 1 s at the earliest: a walk that began before may still read it.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::internal::tables::Allocator;
///
/// let mut places = Allocator::new(1 << 20);
/// let small = places.allocate(100, 0).unwrap();
/// let large = places.allocate(100_000, 0).unwrap();
/// assert_eq!(small, 0);
/// assert_eq!(large % 1024, 0, "a place larger than a block begins with one");
/// ```
#[derive(Debug)]
pub struct Allocator {
    /// First unit to number of units, never touching each other.
    free: BTreeMap<u32, u32>,
    /// The same as number of units and first unit.
    by_size: BTreeSet<(u32, u32)>,
    /// Time when it was freed, first unit, number of units.
    resting: VecDeque<(u64, u32, u32)>,
    used: u64,
}

/// Time until a freed place is reused, in nanoseconds.
const REUSE_DELAY: u64 = 1_000_000_000;

impl Allocator {
    /// Returns an arena of `bytes`, all free.
    pub fn new(bytes: u64) -> Allocator {
        let units = u32::try_from(bytes / UNIT as u64).unwrap_or(u32::MAX);
        Allocator {
            free: BTreeMap::from([(0, units)]),
            by_size: BTreeSet::from([(units, 0)]),
            resting: VecDeque::new(),
            used: 0,
        }
    }

    /// Allocates a place for `bytes`: within one block if they fit, else from a block's start.
    /// `None` if there is no room.
    pub fn allocate(&mut self, bytes: usize, now: u64) -> Option<u32> {
        self.release_rested(now);
        let units = units(bytes)?;
        let (start, len, place) = self.best_fit(units)?;
        self.remove(start);
        self.insert(start, place - start);
        self.insert(place + units, start + len - place - units);
        self.used += u64::from(units);
        Some(place)
    }

    /// Frees the place of `bytes` at `place`.
    pub fn free(&mut self, place: u32, bytes: usize, now: u64) {
        if let Some(units) = units(bytes) {
            self.used -= u64::from(units);
            self.resting.push_back((now, place, units));
        }
    }

    /// Returns the number of bytes in use.
    pub fn used(&self) -> u64 {
        self.used * UNIT as u64
    }

    /// Returns the free bytes, without those freed in the last second.
    pub fn free_ranges(&mut self, now: u64) -> impl Iterator<Item = Range<u64>> {
        self.release_rested(now);
        let bytes = |units: u32| u64::from(units) * UNIT as u64;
        self.free.iter().map(move |(&start, &len)| bytes(start)..bytes(start) + bytes(len))
    }

    fn release_rested(&mut self, now: u64) {
        while let Some(&(since, place, units)) = self.resting.front() {
            if now.saturating_sub(since) < REUSE_DELAY {
                break;
            }
            self.resting.pop_front();
            self.release(place, units);
        }
    }

    /// Returns the smallest free stretch with a place for `units`, and that place.
    ///
    /// A stretch that is large enough may have none, because a place may not cross the end of a
    /// block. A few of those are skipped; among stretches that are larger by a block the first
    /// has one.
    fn best_fit(&self, units: u32) -> Option<(u32, u32, u32)> {
        let place = |&(len, start): &(u32, u32)| Some((start, len, first_fit(start, len, units)?));
        let surely = units.checked_add(units.min(BLOCK_UNITS))?;
        let tight = self.by_size.range((units, 0)..(surely, 0)).take(TRIES).find_map(place);
        tight.or_else(|| self.by_size.range((surely, 0)..).find_map(place))
    }

    fn insert(&mut self, start: u32, len: u32) {
        if len > 0 {
            self.free.insert(start, len);
            self.by_size.insert((len, start));
        }
    }

    fn remove(&mut self, start: u32) -> Option<u32> {
        let len = self.free.remove(&start)?;
        self.by_size.remove(&(len, start));
        Some(len)
    }

    /// Adds a free stretch, merged with its neighbours.
    fn release(&mut self, mut start: u32, mut len: u32) {
        if let Some((&before, &before_len)) = self.free.range(..start).next_back()
            && before + before_len == start
        {
            self.remove(before);
            start = before;
            len += before_len;
        }
        if let Some(behind_len) = self.remove(start + len) {
            len += behind_len;
        }
        self.insert(start, len);
    }
}

/// Stretches without a place that are skipped at most.
const TRIES: usize = 64;

fn units(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).ok()
}

/// Returns the first place in a free stretch where `units` may begin.
fn first_fit(start: u32, len: u32, units: u32) -> Option<u32> {
    let left_in_block = BLOCK_UNITS - start % BLOCK_UNITS;
    let place =
        if units <= left_in_block { start } else { start.checked_add(left_in_block % BLOCK_UNITS)? };
    (place.checked_add(units)? <= start.checked_add(len)?).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_never_crosses_a_block_unless_it_must() {
        let mut places = Allocator::new(1 << 24);
        let mut seed = 7u32;
        for _ in 0..2000 {
            seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
            let bytes = (seed >> 16) as usize % 9000 + 1;
            let Some(place) = places.allocate(bytes, 0) else { break };
            let last = place + units(bytes).unwrap() - 1;
            assert_eq!(place / BLOCK_UNITS, last / BLOCK_UNITS);
        }
    }

    #[test]
    fn what_is_given_back_rests_and_then_serves_again() {
        let mut places = Allocator::new(1 << 16);
        let all = places.allocate(1 << 16, 0).unwrap();
        assert_eq!(places.allocate(1, 0), None);
        places.free(all, 1 << 16, 10);
        assert_eq!(places.allocate(1, 11), None);
        assert_eq!(places.allocate(1 << 16, 10 + REUSE_DELAY), Some(all));
    }

    #[test]
    fn free_is_what_rests_no_more() {
        let free = |places: &mut Allocator, now| -> Vec<(u64, u64)> {
            places.free_ranges(now).map(|bytes| (bytes.start, bytes.end)).collect()
        };
        let mut places = Allocator::new(1 << 16);
        let [first, second] = [0; 2].map(|_| places.allocate(4096, 0).unwrap());
        assert_eq!((first, free(&mut places, 0)), (0, vec![(8192, 65_536)]));
        places.free(first, 4096, 10);
        assert_eq!(free(&mut places, 9 + REUSE_DELAY), [(8192, 65_536)]);
        assert_eq!(free(&mut places, 10 + REUSE_DELAY), [(0, 4096), (8192, 65_536)]);
        places.free(second, 4096, 20);
        assert_eq!(free(&mut places, 20 + REUSE_DELAY), [(0, 65_536)]);
    }

    #[test]
    fn neighbours_become_one_again() {
        let mut places = Allocator::new(1 << 16);
        let pieces: Vec<u32> = (0..16).map(|_| places.allocate(4096, 0).unwrap()).collect();
        for &piece in pieces.iter().rev().step_by(2).chain(pieces.iter().rev().skip(1).step_by(2)) {
            places.free(piece, 4096, 0);
        }
        assert_eq!(places.used(), 0);
        assert_eq!(places.allocate(1 << 16, REUSE_DELAY), Some(0));
    }
}
