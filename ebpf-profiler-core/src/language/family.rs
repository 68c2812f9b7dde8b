//! Names that processes share which were forked from one another.
//!
//! Workers of a server run the same functions, and some functions live shorter than it takes to
//! read their names. If a check is a hash of all that is named, a name that was read in one process
//! is right in the others, and in frames that were walked before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use crate::trace::ScriptId;

/// Identity of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Its address; 0 for the function of a family, which processes have at different ones.
    pub(super) address: u64,
    pub(super) check: u32,
    pub(super) site: u32,
    /// The bits of its positions that [identify](super::Attached::identity_bits) it.
    pub(super) bits: u32,
}

impl Key {
    /// Returns the key of the function in a family.
    pub(super) fn of_family(self) -> Key {
        Key { address: 0, ..self }
    }
}

/// Maximum number of functions of a family.
const MAX: usize = 1 << 14;

/// The functions of a process and of those that were forked from it.
pub(super) struct Family<V>(Arc<Mutex<Functions<V>>>);

struct Functions<V> {
    named: HashMap<Key, V>,
    /// Frames of functions without a name: position, and the number of each.
    unnamed: HashMap<Key, Vec<(u32, ScriptId)>>,
    /// Number of these frames.
    frames: usize,
}

impl<V: Clone> Family<V> {
    pub(super) fn get(&self, key: &Key) -> Option<V> {
        self.lock().named.get(key).cloned()
    }

    /// Adds a function; without room for it the others are dropped. Returns the frames that had no
    /// name until now.
    pub(super) fn insert(&self, key: Key, value: V) -> Vec<(u32, ScriptId)> {
        let mut all = self.lock();
        if all.named.len() >= MAX {
            all.named.clear();
        }
        all.named.insert(key, value);
        let frames = all.unnamed.remove(&key).unwrap_or_default();
        all.frames -= frames.len();
        frames
    }

    /// Returns the number of a frame without a name; `reserve` returns a new one. `None` without
    /// room for it.
    pub(super) fn unnamed(
        &self,
        key: Key,
        position: u32,
        reserve: impl FnOnce() -> Option<ScriptId>,
    ) -> Option<ScriptId> {
        let mut all = self.lock();
        let known = all.unnamed.get(&key).and_then(|frames| frames.iter().find(|frame| frame.0 == position));
        if let Some(&(_, id)) = known {
            return Some(id);
        }
        let id = (all.frames < MAX).then(reserve)??;
        all.frames += 1;
        all.unnamed.entry(key).or_default().push((position, id));
        Some(id)
    }

    pub(super) fn clear(&self) {
        *self.lock() = Functions::default();
    }

    fn lock(&self) -> MutexGuard<'_, Functions<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Default for Functions<V> {
    fn default() -> Functions<V> {
        Functions { named: HashMap::default(), unnamed: HashMap::default(), frames: 0 }
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
    let key = |check, site| Key { check, site, ..Key::default() };
    let family = Family::default();
    family.clone().insert(key(2, 3), "name");
    assert_eq!(family.get(&key(2, 3)), Some("name"));
    assert_eq!(family.get(&key(2, 4)), None);
    (0..MAX as u32 - 1).for_each(|check| _ = family.insert(key(check, 0), "other"));
    assert_eq!(family.get(&key(2, 3)), Some("name"));
    family.insert(key(0, 1), "one too many");
    assert_eq!(family.get(&key(2, 3)), None);
    family.clear();
    assert_eq!(family.get(&key(0, 1)), None);
}

#[test]
fn frames_are_named_by_a_later_function() {
    let key = |check, bits| Key { check, bits, ..Key::default() };
    let family = Family::default();
    let unnamed = |position, id| family.unnamed(key(2, 4), position, || Some(ScriptId(id)));
    assert_eq!([unnamed(5, 1), unnamed(6, 2), unnamed(5, 3)], [1, 2, 1].map(|id| Some(ScriptId(id))));
    assert_eq!(family.insert(key(3, 4), "other"), []);
    assert_eq!(family.insert(key(2, 5), "other"), []);
    assert_eq!(family.insert(key(2, 4), "name"), [(5, ScriptId(1)), (6, ScriptId(2))]);
    assert_eq!(family.insert(key(2, 4), "name"), []);
    let room = (0..=MAX as u32).filter_map(|position| unnamed(position, position)).count();
    assert_eq!(room, MAX);
}
