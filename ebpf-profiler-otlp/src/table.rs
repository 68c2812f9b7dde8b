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
    len: u32,
    /// The elements that can be found again.
    known: HashTable<Known>,
    /// Whether those are all.
    is_indexed: bool,
    hasher: DefaultHashBuilder,
}

/// An element that can be found again.
///
/// Half of its hash stays here, so that growing needs no content and most differences show without it.
#[derive(Clone, Copy, Debug)]
struct Known {
    hash: u32,
    number: u32,
    /// Where it begins, tag included.
    start: u32,
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
        self.known.clear();
        self.is_indexed = false;
        self.bytes.message(self.field, 0);
        self.len = 1;
    }

    /// Makes room for so many elements more that can be found again.
    pub(crate) fn expect(&mut self, elements: usize) {
        self.known.reserve(elements, |it| spread(it.hash));
    }

    /// Makes room for so many bytes more.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// The number of an element with this content.
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

    /// The number of an element that no other call of this function gave or will give, so that it needn't be
    /// looked for, unless the table was told that this isn't so.
    #[inline]
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Buffer)) -> u32 {
        let start = self.bytes.len();
        let len = self.bytes.message_of(self.field, write);
        match len == 0 || self.is_indexed {
            true => self.settle(start, len),
            false => self.count(),
        }
    }

    /// The number of an element that only another call of this function can have given.
    pub(crate) fn add_or_find(&mut self, write: impl FnOnce(&mut Buffer)) -> u32 {
        let start = self.bytes.len();
        let len = self.bytes.message_of(self.field, write);
        self.settle(start, len)
    }

    /// Has every element looked for from now on.
    pub(crate) fn may_repeat(&mut self) {
        if !self.is_indexed {
            self.index();
        }
    }

    /// Counts the last element, or takes it back where there is an equal one.
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
        // Beyond 4 GiB an element may be there twice.
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

    /// How many elements there are, element 0 included.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// All elements, with tags and lengths.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[cfg(any(test, feature = "pprof"))]
    /// The contents, without tags and lengths, in the order of their numbers.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        (0..self.len).map(move |_| {
            let (content, behind) = split_element(rest);
            rest = behind;
            content
        })
    }
}

/// The content of the first element, and what stands behind it.
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
