//! Names that processes share which were forked from one another.
//!
//! Workers of a server run the same functions at the same addresses, and some functions live shorter than it takes to read their
//! names. If a check is a hash of all that is named, a name that was read in one process is right in the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

/// Address, check and site of a function.
pub(super) type Key = (u64, u32, u32);

/// Maximum number of functions of a family.
const MAX: usize = 1 << 14;

/// The named functions of a process and of those that were forked from it.
pub(super) struct Family<V>(Arc<Mutex<HashMap<Key, V>>>);

impl<V: Clone> Family<V> {
    pub(super) fn get(&self, key: &Key) -> Option<V> {
        self.lock().get(key).cloned()
    }

    /// Adds a function; without room for it the others are dropped.
    pub(super) fn insert(&self, key: Key, value: V) {
        let mut all = self.lock();
        if all.len() >= MAX {
            all.clear();
        }
        all.insert(key, value);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Default for Family<V> {
    fn default() -> Family<V> {
        Family(Arc::default())
    }
}

/// The same family.
impl<V> Clone for Family<V> {
    fn clone(&self) -> Family<V> {
        Family(self.0.clone())
    }
}

#[test]
fn clones_share_functions() {
    let family = Family::default();
    family.clone().insert((1, 2, 3), "name");
    assert_eq!(family.get(&(1, 2, 3)), Some("name"));
    assert_eq!(family.get(&(1, 2, 4)), None);
    (0..MAX as u64 - 1).for_each(|address| family.insert((address, 0, 0), "other"));
    assert_eq!(family.get(&(1, 2, 3)), Some("name"));
    family.insert((0, 1, 0), "one too many");
    assert_eq!(family.get(&(1, 2, 3)), None);
    family.clear();
    assert_eq!(family.get(&(0, 1, 0)), None);
}
