//! Numbers for distinct messages, in the form in which they go out.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::wire::Wire;

/// A repeated field: each element once, its number is its place.
///
/// Equality is that of the encoded bytes. An encoder that writes equal values as equal bytes, and refers to
/// other tables by their numbers, so gets equality of whole values, recursively, for the price of one hash; and
/// for less where it knows already that an element is new.
///
/// The bytes are those of the enclosing message, tags and lengths included: they are only copied in the end.
#[derive(Debug, Default)]
pub(crate) struct Table {
    field: u8,
    bytes: Vec<u8>,
    ends: Vec<End>,
    /// Half of the hash and the number of each element, once one had to be looked for.
    numbers: HashTable<(u32, u32)>,
    is_indexed: bool,
    hasher: DefaultHashBuilder,
}

/// Where the content of an element begins and ends.
#[derive(Clone, Copy, Debug)]
struct End {
    start: usize,
    end: usize,
}

impl Table {
    /// A table for the repeated `field`, with the empty element as number 0.
    pub(crate) fn new(field: u8) -> Table {
        let mut table = Table { field, ..Table::default() };
        table.clear();
        table
    }

    /// Forgets everything but element 0; keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.numbers.clear();
        self.is_indexed = false;
        self.append(&[]);
    }

    /// The number of an element with this content.
    pub(crate) fn intern(&mut self, content: &[u8]) -> u32 {
        self.may_repeat();
        // Half of the hash stays beside the number, so that growing needs no content and most
        // differences show without it.
        let hash = self.hasher.hash_one(content) as u32;
        let Table { bytes, ends, numbers, .. } = self;
        let same = |&(short, number): &(u32, u32)| {
            let element = ends[number as usize];
            short == hash && bytes[element.start..element.end] == *content
        };
        match numbers.find(spread(hash), same) {
            Some(&(_, number)) => number,
            None => {
                let number = self.append(content);
                self.remember(hash, number);
                number
            }
        }
    }

    /// The number of an element that no other call of this function gave or will give, so that it needn't be
    /// looked for, unless the table was told that this isn't so.
    pub(crate) fn add(&mut self, content: &[u8]) -> u32 {
        match content {
            [] => 0,
            _ if self.is_indexed => self.intern(content),
            _ => self.append(content),
        }
    }

    /// Has every element looked for from now on.
    pub(crate) fn may_repeat(&mut self) {
        if !self.is_indexed {
            self.index();
        }
    }

    fn append(&mut self, content: &[u8]) -> u32 {
        let number = self.ends.len() as u32;
        self.bytes.message(self.field, content.len());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(content);
        self.ends.push(End { start, end: self.bytes.len() });
        number
    }

    fn remember(&mut self, hash: u32, number: u32) {
        self.numbers.insert_unique(spread(hash), (hash, number), |&(hash, _)| spread(hash));
    }

    #[cold]
    fn index(&mut self) {
        self.is_indexed = true;
        for number in 0..self.ends.len() {
            let End { start, end } = self.ends[number];
            let hash = self.hasher.hash_one(&self.bytes[start..end]) as u32;
            self.remember(hash, number as u32);
        }
    }

    /// How many elements there are, element 0 included.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All elements, with tags and lengths.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[cfg(any(test, feature = "pprof"))]
    /// The contents, without tags and lengths, in the order of their numbers.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().map(|element| &self.bytes[element.start..element.end])
    }
}

/// The table wants its bits in both ends of a word.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_has_one_number() {
        let mut table = Table::new(5);
        assert_eq!(table.intern(b""), 0);
        assert_eq!(table.intern(b"a"), 1);
        assert_eq!(table.intern(b"b"), 2);
        assert_eq!(table.intern(b"a"), 1);
        assert_eq!(table.bytes(), [0x2a, 0, 0x2a, 1, b'a', 0x2a, 1, b'b']);
        assert_eq!(table.contents().collect::<Vec<_>>(), [&b""[..], b"a", b"b"]);
    }

    #[test]
    fn what_was_added_is_found() {
        let mut table = Table::new(5);
        assert_eq!([table.add(b"a"), table.add(b""), table.add(b"b")], [1, 0, 2]);
        assert_eq!(table.intern(b"b"), 2);
        assert_eq!(table.intern(b"c"), 3);
        assert_eq!([table.add(b"c"), table.add(b"d")], [3, 4]);
    }

    #[test]
    fn numbers_stay_when_it_grows() {
        let mut table = Table::new(1);
        let numbers: Vec<u32> = (0..10_000u32).map(|n| table.intern(&n.to_le_bytes())).collect();
        for (n, &number) in numbers.iter().enumerate() {
            assert_eq!(table.intern(&(n as u32).to_le_bytes()), number);
        }
        assert_eq!(table.len(), 10_001);
    }
}
