//! A cache with a memory budget.

use std::hash::Hash;

use hashbrown::{Equivalent, HashMap};

/// A cache of two generations. A used entry moves to the young generation; when that holds half of
/// the budget, the old one is dropped.
///
/// Recently used entries stay, as in an LRU list, but a hit costs one look-up and a full cache
/// frees its memory in one piece.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    young: HashMap<K, Weighed<V>>,
    old: HashMap<K, Weighed<V>>,
    young_bytes: usize,
    budget: usize,
}

#[derive(Debug)]
struct Weighed<V> {
    value: V,
    bytes: usize,
}

impl<K: Hash + Eq, V> Cache<K, V> {
    pub(super) fn new(budget: usize) -> Cache<K, V> {
        Cache { young: HashMap::new(), old: HashMap::new(), young_bytes: 0, budget }
    }

    pub(super) fn get<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<&V> {
        if !self.young.contains_key(key) {
            let (key, found) = self.old.remove_entry(key)?;
            self.put(key, found);
        }
        self.young.get(key).map(|found| &found.value)
    }

    /// Caches `value`, which takes `bytes`, unless it exceeds half of the budget.
    pub(super) fn insert(&mut self, key: K, value: V, bytes: usize) {
        let bytes = bytes + size_of::<(K, Weighed<V>)>();
        if bytes <= self.budget / 2 {
            self.put(key, Weighed { value, bytes });
        }
    }

    fn put(&mut self, key: K, found: Weighed<V>) {
        if self.young_bytes + found.bytes > self.budget / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += found.bytes;
        if let Some(before) = self.young.insert(key, found) {
            self.young_bytes -= before.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: usize = size_of::<(u32, Weighed<u32>)>();

    #[test]
    fn keeps_used_entries() {
        let mut cache = Cache::new(8 * ENTRY);
        for number in 0..1000 {
            cache.insert(number, number, 0);
            assert_eq!(cache.get(&0), Some(&0), "after {number}");
            assert!(cache.young.len() + cache.old.len() <= 8);
        }
        assert_eq!(cache.get(&1), None);
        assert_eq!(cache.get(&999), Some(&999));
    }

    #[test]
    fn drops_values_over_half_the_budget() {
        let mut cache = Cache::new(1000);
        cache.insert(1, 1, 501);
        assert_eq!(cache.get(&1), None);
        cache.insert(1, 1, 100);
        assert_eq!(cache.get(&1), Some(&1));
    }

    #[test]
    fn replaced_value_counts_once() {
        let mut cache = Cache::new(1000);
        for _ in 0..100 {
            cache.insert(1, 1, 100);
            cache.insert(2, 2, 100);
        }
        assert_eq!(cache.get(&1), Some(&1));
        assert!(cache.young_bytes <= 500);
    }
}
