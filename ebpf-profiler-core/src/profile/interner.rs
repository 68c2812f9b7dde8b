//! Values by number, each once.

use std::hash::Hash;

use hashbrown::HashMap;

/// Numbers of distinct values.
#[derive(Clone, Debug)]
pub(crate) struct Interner<T> {
    numbers: HashMap<T, u32>,
    pub(crate) items: Vec<T>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner { numbers: HashMap::new(), items: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// Returns the number of a value that is known.
    pub(crate) fn get(&self, item: &T) -> Option<u32> {
        self.numbers.get(item).copied()
    }

    /// Returns the number of a value.
    pub(crate) fn intern(&mut self, item: T) -> u32 {
        if let Some(&number) = self.numbers.get(&item) {
            return number;
        }
        let number = self.items.len() as u32;
        self.items.push(item.clone());
        self.numbers.insert(item, number);
        number
    }
}
