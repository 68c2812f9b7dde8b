//! Numbers for distinct messages, in the form in which they go out.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::wire::{Wire, bytes_tag};

/// A repeated field: each element once, its number is its place.
///
/// Equality is that of the encoded bytes. An encoder that writes equal values as equal bytes, and refers to
/// other tables by their numbers, so gets equality of whole values, recursively, for the price of one hash.
///
/// The bytes are those of the enclosing message, tags and lengths included: they are only copied in the end.
#[derive(Debug, Default)]
pub(crate) struct Table {
    field: u8,
    bytes: Vec<u8>,
    elements: Vec<Element>,
    numbers: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
}

#[derive(Clone, Copy, Debug)]
struct Element {
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
        self.elements.clear();
        self.numbers.clear();
        self.intern(&[]);
    }

    /// The number of an element with this content.
    pub(crate) fn intern(&mut self, content: &[u8]) -> u32 {
        // Half of the hash stays beside the number, so that growing needs no content and most
        // differences show without it.
        let hash = self.hasher.hash_one(content);
        let Table { bytes, elements, numbers, .. } = self;
        let same = |&(short, number): &(u32, u32)| {
            let element = elements[number as usize];
            short == hash as u32 && bytes[element.start..element.end] == *content
        };
        match numbers.find(spread(hash as u32), same) {
            Some(&(_, number)) => number,
            None => self.append(content, hash as u32),
        }
    }

    fn append(&mut self, content: &[u8], hash: u32) -> u32 {
        let number = self.elements.len() as u32;
        self.bytes.push(bytes_tag(self.field));
        self.bytes.varint(content.len() as u64);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(content);
        self.elements.push(Element { start, end: self.bytes.len() });
        self.numbers.insert_unique(spread(hash), (hash, number), |&(hash, _)| spread(hash));
        number
    }

    /// How many elements there are, element 0 included.
    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    /// All elements, with tags and lengths.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[cfg(any(test, feature = "pprof"))]
    /// The contents, without tags and lengths, in the order of their numbers.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.elements.iter().map(|element| &self.bytes[element.start..element.end])
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
    fn numbers_stay_when_it_grows() {
        let mut table = Table::new(1);
        let numbers: Vec<u32> = (0..10_000u32).map(|n| table.intern(&n.to_le_bytes())).collect();
        for (n, &number) in numbers.iter().enumerate() {
            assert_eq!(table.intern(&(n as u32).to_le_bytes()), number);
        }
        assert_eq!(table.len(), 10_001);
    }
}
