//! Tables that are equal, in the arena once.
//!
//! A file that others than root may write is a module for each of its copies, as its build id proves nothing: 500 containers have
//! 500 modules of one libc. Their tables have the same bytes.

use std::hash::BuildHasher as _;

use ebpf_programs::abi::arena::UNIT;
use hashbrown::{DefaultHashBuilder, HashMap};

use crate::tables::Tables;

/// The tables in the arena, by their bytes.
#[derive(Default)]
pub(super) struct SharedTables {
    hasher: DefaultHashBuilder,
    /// Places of the tables of a hash.
    by_hash: HashMap<u64, Vec<u32>>,
    by_place: HashMap<u32, Shared>,
}

struct Shared {
    hash: u64,
    size: usize,
    /// Number of modules with the table.
    users: u32,
}

impl SharedTables {
    /// Returns the place of a table with the same bytes, which has one more user then.
    pub(super) fn find(&mut self, image: &[u8], tables: &dyn Tables) -> Option<u32> {
        let places = self.by_hash.get(&self.hasher.hash_one(image))?;
        let is_equal = |place: &&u32| {
            self.by_place.get(*place).is_some_and(|shared| shared.size == image.len())
                && has(tables, **place, image)
        };
        let place = *places.iter().find(is_equal)?;
        self.by_place.get_mut(&place)?.users += 1;
        Some(place)
    }

    /// Adds a table that was written, with one user.
    pub(super) fn add(&mut self, image: &[u8], place: u32) {
        let hash = self.hasher.hash_one(image);
        self.by_hash.entry(hash).or_default().push(place);
        self.by_place.insert(place, Shared { hash, size: image.len(), users: 1 });
    }

    /// Returns `true` if a table has several users.
    pub(super) fn is_shared(&self, place: u32) -> bool {
        self.by_place.get(&place).is_some_and(|shared| shared.users > 1)
    }

    /// Removes a user of a table. Returns `true` if it was the last one.
    pub(super) fn release(&mut self, place: u32) -> bool {
        let Some(shared) = self.by_place.get_mut(&place) else { return true };
        shared.users -= 1;
        if shared.users > 0 {
            return false;
        }
        let hash = shared.hash;
        self.by_place.remove(&place);
        if let Some(places) = self.by_hash.get_mut(&hash) {
            places.retain(|&other| other != place);
            if places.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
        true
    }
}

/// Returns `true` if the arena has these bytes at a place.
fn has(tables: &dyn Tables, place: u32, image: &[u8]) -> bool {
    let mut word = place * (UNIT / 4) as u32;
    let mut rest = image;
    while !rest.is_empty() {
        let Some(piece) = tables.piece(word).filter(|piece| !piece.is_empty()) else { return false };
        let size = rest.len().min(piece.len() * 4);
        let (bytes, behind) = rest.split_at(size);
        let is_equal =
            bytes.chunks(4).zip(piece).all(|(bytes, word)| word.to_ne_bytes()[..bytes.len()] == *bytes);
        if !is_equal {
            return false;
        }
        word += (size / 4) as u32;
        rest = behind;
    }
    true
}

#[test]
fn equal_tables_share_a_place_until_the_last_user_leaves() {
    let mut tables = crate::tables::MemoryTables::default();
    let mut shared = SharedTables::default();
    let image: Vec<u8> = (0..30_001u32).map(|byte| (byte * 7) as u8).collect();
    tables.write(4096, &image).unwrap();
    let place = (4096 / UNIT) as u32;
    assert_eq!(shared.find(&image, &tables), None);
    shared.add(&image, place);
    assert_eq!((shared.find(&image, &tables), shared.is_shared(place)), (Some(place), true));
    let mut other = image.clone();
    other[30_000] ^= 1;
    assert_eq!(shared.find(&other, &tables), None);
    // As if the hashes were equal: the bytes decide.
    let hash = shared.hasher.hash_one(&other[..]);
    shared.by_hash.insert(hash, vec![place]);
    assert_eq!(shared.find(&other, &tables), None);
    assert!(!shared.release(place) && shared.release(place));
    assert_eq!(shared.find(&image, &tables), None);
}
