//! Numbers for distinct messages, in the form in which they go out.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::buffer::Buffer;
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
    bytes: Buffer,
    elements: Vec<Element>,
    /// Half of the hash and the number of each element, once one had to be looked for.
    numbers: HashTable<(u32, u32)>,
    is_indexed: bool,
    hasher: DefaultHashBuilder,
}

/// Where the content of an element begins and ends.
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
        self.is_indexed = false;
        self.append(|_| {});
    }

    /// The number of an element with this content.
    pub(crate) fn intern(&mut self, content: &[u8]) -> u32 {
        self.may_repeat();
        let hash = self.hasher.hash_one(content) as u32;
        match self.find(hash, content) {
            Some(number) => number,
            None => {
                let number = self.append(|bytes| bytes.put(content));
                self.remember(hash, number);
                number
            }
        }
    }

    /// The number of an element that no other call of this function gave or will give, so that it needn't be
    /// looked for, unless the table was told that this isn't so.
    #[inline]
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Buffer)) -> u32 {
        let before = self.bytes.len();
        let number = self.append(write);
        let Element { start, end } = self.elements[number as usize];
        match start == end || self.is_indexed {
            true => self.settle(number, before),
            false => number,
        }
    }

    /// Has every element looked for from now on.
    pub(crate) fn may_repeat(&mut self) {
        if !self.is_indexed {
            self.index();
        }
    }

    #[inline]
    fn append(&mut self, write: impl FnOnce(&mut Buffer)) -> u32 {
        let len = self.bytes.message_of(self.field, write);
        let end = self.bytes.len();
        self.elements.push(Element { start: end - len, end });
        self.elements.len() as u32 - 1
    }

    /// Takes the last element back where there is an equal one.
    fn settle(&mut self, number: u32, before: usize) -> u32 {
        let Element { start, end } = self.elements[number as usize];
        let hash = self.hasher.hash_one(&self.bytes[start..end]) as u32;
        let known = if start == end { Some(0) } else { self.find(hash, &self.bytes[start..end]) };
        match known {
            Some(known) => {
                self.bytes.truncate(before);
                self.elements.pop();
                known
            }
            None => {
                self.remember(hash, number);
                number
            }
        }
    }

    // Half of the hash stays beside the number, so that growing needs no content and most differences show
    // without it.
    fn find(&self, hash: u32, content: &[u8]) -> Option<u32> {
        let same = |&(short, number): &(u32, u32)| {
            let Element { start, end } = self.elements[number as usize];
            short == hash && self.bytes[start..end] == *content
        };
        self.numbers.find(spread(hash), same).map(|&(_, number)| number)
    }

    fn remember(&mut self, hash: u32, number: u32) {
        self.numbers.insert_unique(spread(hash), (hash, number), |&(hash, _)| spread(hash));
    }

    #[cold]
    fn index(&mut self) {
        self.is_indexed = true;
        for (number, &Element { start, end }) in (0..).zip(&self.elements) {
            let hash = self.hasher.hash_one(&self.bytes[start..end]) as u32;
            self.numbers.insert_unique(spread(hash), (hash, number), |&(hash, _)| spread(hash));
        }
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
    fn what_was_added_is_found() {
        let mut table = Table::new(5);
        assert_eq!(
            [table.add(|it| it.put(b"a")), table.add(|_| {}), table.add(|it| it.put(b"b"))],
            [1, 0, 2]
        );
        assert_eq!(table.intern(b"b"), 2);
        assert_eq!(table.intern(b"c"), 3);
        assert_eq!([table.add(|it| it.put(b"c")), table.add(|it| it.put(b"d"))], [3, 4]);
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
