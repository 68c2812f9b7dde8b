//! Indices for distinct encoded elements.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::buffer::Buffer;
use crate::wire::Wire;

/// A repeated field that holds each element once; the position of an element is its index.
///
/// Elements are equal if their encoded bytes are. Because equal values are encoded as equal bytes,
/// and other tables are referred to by index, one hash compares whole values recursively. Elements
/// that are known to be new need no hash.
///
/// The bytes include tags and lengths, so that a message copies them as they are.
#[derive(Debug, Default)]
pub(crate) struct Table {
    field: u8,
    bytes: Buffer,
    len: u32,
    /// The indexed elements.
    known: HashTable<Known>,
    /// `true` if all elements are indexed.
    is_indexed: bool,
    hasher: DefaultHashBuilder,
}

/// An indexed element.
///
/// Half of its hash is kept, so that the index grows without reading contents and most differences
/// are found without them.
#[derive(Clone, Copy, Debug)]
struct Known {
    hash: u32,
    number: u32,
    /// Offset of its tag.
    start: u32,
}

impl Table {
    /// Creates a table for the repeated `field`, with the empty element at index 0.
    pub(crate) fn new(field: u8) -> Table {
        let mut table = Table { field, ..Table::default() };
        table.clear();
        table
    }

    /// Removes all elements but the first, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.known.clear();
        self.is_indexed = false;
        self.bytes.message(self.field, 0);
        self.len = 1;
    }

    /// Reserves memory in the index.
    pub(crate) fn reserve_index(&mut self, elements: usize) {
        self.known.reserve(elements, |it| spread(it.hash));
    }

    /// Reserves memory for the elements.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Returns the index of an element with this content, adding it if it is new.
    pub(crate) fn intern(&mut self, content: &[u8]) -> u32 {
        self.may_repeat();
        let hash = self.hash(content);
        match self.find(hash, content) {
            Some(number) => number,
            None => {
                let start = self.bytes.len();
                self.bytes.bytes(self.field, content);
                self.count_known(hash, start)
            }
        }
    }

    /// Adds an element that differs from all others, without a search, and returns its index. After
    /// [`may_repeat`](Table::may_repeat), equal elements are found.
    #[inline]
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Buffer)) -> u32 {
        let start = self.bytes.len();
        let len = self.bytes.message_of(self.field, write);
        match len == 0 || self.is_indexed {
            true => self.settle(start, len),
            false => self.count(),
        }
    }

    /// Returns the index of an element that only calls of this function add.
    pub(crate) fn add_or_find(&mut self, write: impl FnOnce(&mut Buffer)) -> u32 {
        let start = self.bytes.len();
        let len = self.bytes.message_of(self.field, write);
        self.settle(start, len)
    }

    /// Indexes all elements, so that equal ones are found from now on.
    pub(crate) fn may_repeat(&mut self) {
        if !self.is_indexed {
            self.index();
        }
    }

    /// Keeps the last element, or removes it if an equal one exists, and returns the index.
    fn settle(&mut self, start: usize, len: usize) -> u32 {
        let content = &self.bytes[self.bytes.len() - len..];
        let hash = self.hash(content);
        let known = if len == 0 { Some(0) } else { self.find(hash, content) };
        match known {
            Some(known) => {
                self.bytes.truncate(start);
                known
            }
            None => self.count_known(hash, start),
        }
    }

    #[inline]
    fn count(&mut self) -> u32 {
        self.len += 1;
        self.len - 1
    }

    fn count_known(&mut self, hash: u32, start: usize) -> u32 {
        let number = self.count();
        // Beyond 4 GiB, elements are not indexed and may be duplicates.
        if let Ok(start) = u32::try_from(start) {
            self.known.insert_unique(spread(hash), Known { hash, number, start }, |it| spread(it.hash));
        }
        number
    }

    fn hash(&self, content: &[u8]) -> u32 {
        self.hasher.hash_one(content) as u32
    }

    fn find(&self, hash: u32, content: &[u8]) -> Option<u32> {
        let same =
            |it: &Known| it.hash == hash && split_element(&self.bytes[it.start as usize..]).0 == content;
        self.known.find(spread(hash), same).map(|it| it.number)
    }
    #[cold]
    fn index(&mut self) {
        self.is_indexed = true;
        self.known.clear();
        let mut rest = &self.bytes[..];
        for number in 0..self.len {
            let start = self.bytes.len() - rest.len();
            let (content, behind) = split_element(rest);
            let hash = self.hasher.hash_one(content) as u32;
            if let Ok(start) = u32::try_from(start) {
                self.known.insert_unique(spread(hash), Known { hash, number, start }, |it| spread(it.hash));
            }
            rest = behind;
        }
    }

    /// Returns the number of elements, including the empty one.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns all elements with tags and lengths.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[cfg(any(test, feature = "pprof"))]
    /// Returns the contents of the elements without tags and lengths.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        (0..self.len).map(move |_| {
            let (content, behind) = split_element(rest);
            rest = behind;
            content
        })
    }
}

/// Splits the bytes into the content of the first element and the rest.
fn split_element(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (mut len, mut start) = (0, 1);
    for shift in (0..usize::BITS).step_by(7) {
        let byte = bytes.get(start).copied().unwrap_or_default();
        len |= usize::from(byte & 0x7f) << shift;
        start += 1;
        if byte < 0x80 {
            break;
        }
    }
    bytes.get(start..).and_then(|rest| rest.split_at_checked(len)).unwrap_or_default()
}

/// Widens a hash: the hash table uses its top and its bottom bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_has_one_index() {
        let mut table = Table::new(5);
        assert_eq!(table.intern(b""), 0);
        assert_eq!(table.intern(b"a"), 1);
        assert_eq!(table.intern(b"b"), 2);
        assert_eq!(table.intern(b"a"), 1);
        assert_eq!(table.bytes(), [0x2a, 0, 0x2a, 1, b'a', 0x2a, 1, b'b']);
        assert_eq!(table.contents().collect::<Vec<_>>(), [&b""[..], b"a", b"b"]);
    }

    #[test]
    fn added_elements_are_found() {
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
    fn indices_are_stable_when_the_table_grows() {
        let mut table = Table::new(1);
        let numbers: Vec<u32> = (0..10_000u32).map(|n| table.intern(&n.to_le_bytes())).collect();
        for (n, &number) in numbers.iter().enumerate() {
            assert_eq!(table.intern(&(n as u32).to_le_bytes()), number);
        }
        assert_eq!(table.len(), 10_001);
    }
}
