//! An output buffer with appends of fixed length.
//!
//! ```text
//!   ... a b c d e f 0 0 0 0 0 0 0 0 0 0
//!                   ▲ len               a store of 16 bytes, 3 of them content, moves `len` by 3;
//!                                       the next store overwrites the rest
//! ```
//!
//! A store of known length is one instruction; a copy of variable length is a call.

use std::ops::Deref;

use crate::wire::{Wire, bytes_tag, number_tag};

/// A growing byte buffer that dereferences to the written bytes.
#[derive(Debug, Default)]
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    /// Creates an empty buffer with room for `bytes`.
    pub(crate) fn with_room(bytes: usize) -> Buffer {
        // The last store can exceed its content.
        Buffer(Vec::with_capacity(bytes + size_of::<Piece>()))
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Removes the bytes and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Reserves memory.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.0.reserve(bytes);
    }

    #[inline]
    pub(crate) fn piece(&mut self, piece: Piece) {
        self.store(piece.bytes, usize::from(piece.len));
    }

    /// Appends a message with the fields that `write` appends, and returns its length.
    ///
    /// One byte is reserved for the length, so a message of 128 bytes or more is moved.
    #[inline]
    pub(crate) fn message_of(&mut self, field: u8, write: impl FnOnce(&mut Buffer)) -> usize {
        self.store([bytes_tag(field), 0], 2);
        let start = self.0.len();
        write(self);
        let len = self.0.len() - start;
        match self.0.get_mut(start - 1) {
            Some(length) if len < 0x80 => *length = len as u8,
            _ => self.move_message(start, len),
        }
        len
    }

    #[cold]
    fn move_message(&mut self, start: usize, len: usize) {
        let mut length = Vec::new();
        length.varint(len as u64);
        self.put(&length[1..]);
        self.0.copy_within(start..start + len, start + length.len() - 1);
        self.0[start - 1..][..length.len()].copy_from_slice(&length);
    }

    #[inline]
    pub(crate) fn kept(&mut self, number: Kept) {
        self.store(number.bytes(), number.len());
    }

    /// Appends many encoded numbers.
    #[inline]
    pub(crate) fn all_kept(&mut self, numbers: impl ExactSizeIterator<Item = Kept>) {
        let start = self.0.len();
        self.0.resize(start + numbers.len() * Kept::MAX_BYTES + size_of::<Kept>(), 0);
        let (room, mut end) = (&mut self.0[start..], 0);
        for number in numbers {
            let Some(room) = room.get_mut(end..).and_then(|rest| rest.first_chunk_mut()) else { break };
            *room = number.bytes();
            end += number.len();
        }
        self.0.truncate(start + end);
    }

    /// Appends a tag and a number below [`FOUR_BYTE_LIMIT`].
    #[inline]
    fn tagged(&mut self, tag: u8, value: u64) {
        if value < 0x80 {
            self.store([tag, value as u8], 2);
        } else {
            let (bytes, len) = short_varint(value);
            self.store((bytes << 8 | u64::from(tag)).to_le_bytes(), len + 1);
        }
    }

    #[cold]
    fn long_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.store([value as u8 | 0x80], 1);
            value >>= 7;
        }
        self.store([value as u8], 1);
    }

    /// Stores all of `bytes` and appends the first `len`.
    #[inline]
    fn store<const N: usize>(&mut self, bytes: [u8; N], len: usize) {
        let end = self.0.len() + len;
        self.0.extend_from_slice(&bytes);
        self.0.truncate(end);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Wire for Buffer {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        match value {
            0..0x80 => self.store([value as u8], 1),
            0x80..FOUR_BYTE_LIMIT => {
                let (bytes, len) = short_varint(value);
                self.store(bytes.to_le_bytes(), len);
            }
            _ => self.long_varint(value),
        }
    }

    #[inline]
    fn number(&mut self, field: u8, value: u64) {
        match value {
            0 => {}
            1..FOUR_BYTE_LIMIT => self.tagged(number_tag(field), value),
            _ => self.number_or_zero(field, value),
        }
    }

    #[inline]
    fn message(&mut self, field: u8, len: usize) {
        match len as u64 {
            len @ ..FOUR_BYTE_LIMIT => self.tagged(bytes_tag(field), len),
            len => {
                self.store([bytes_tag(field)], 1);
                self.long_varint(len);
            }
        }
    }

    #[inline]
    fn fixed64s(&mut self, values: &[u64]) {
        self.0.reserve(8 * values.len());
        values.iter().for_each(|value| self.0.extend_from_slice(&value.to_le_bytes()));
    }
}

/// Returns the bytes of a varint below [`FOUR_BYTE_LIMIT`], lowest first, and their number, at most four.
///
/// ```text
///   value             aaaaaaabbbbbbbcccccccddddddd
///   bytes   0aaaaaaa 1bbbbbbb 1ccccccc 1ddddddd
/// ```
#[inline]
fn short_varint(value: u64) -> (u64, usize) {
    let spread = value & 0x7f | (value & 0x3f80) << 1 | (value & 0x1f_c000) << 2 | (value & 0xfe0_0000) << 3;
    let len = crate::wire::varint_len(value);
    let more = 0x8080_8080 & ((1 << (8 * len as u64 - 8) & 0xffff_ffff) - 1);
    (spread | more, len)
}

/// Exclusive limit of varints of four bytes.
const FOUR_BYTE_LIMIT: u64 = 1 << 28;

/// At most 16 encoded bytes, stored in one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    bytes: [u8; 16],
    len: u8,
}

impl Piece {
    /// Maximum number of bytes.
    pub(crate) const MAX: usize = 16;

    /// Copies at most 16 bytes; a field of two numbers has less.
    pub(crate) fn new(bytes: &[u8]) -> Piece {
        let mut piece = Piece { bytes: [0; 16], len: bytes.len().min(16) as u8 };
        piece.bytes.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        piece
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }
}

/// An encoded number or field of a number: its bytes, and their number in the top byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kept(u64);

impl Kept {
    /// Maximum number of bytes.
    const MAX_BYTES: usize = 6;

    #[inline]
    pub(crate) fn varint(value: u32) -> Kept {
        let (bytes, len) = match value.into() {
            value @ ..FOUR_BYTE_LIMIT => short_varint(value),
            // The fifth byte has the remaining bits.
            value => (short_varint(value & (FOUR_BYTE_LIMIT - 1)).0 | 0x8080_8080 | value >> 28 << 32, 5),
        };
        Kept(bytes | (len as u64) << 56)
    }

    /// Encodes a field, also if the number is zero.
    #[inline]
    pub(crate) fn field(number: u8, value: u32) -> Kept {
        let varint = Kept::varint(value);
        let bytes = (varint.0 & ((1 << 56) - 1)) << 8 | u64::from(number_tag(number));
        Kept(bytes | (varint.len() as u64 + 1) << 56)
    }

    #[inline]
    fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        (self.0 >> 56) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [u64; 14] = [
        0,
        1,
        127,
        128,
        16_383,
        16_384,
        2_097_151,
        2_097_152,
        FOUR_BYTE_LIMIT - 1,
        FOUR_BYTE_LIMIT,
        u32::MAX as u64,
        1 << 56,
        u64::MAX / 2,
        u64::MAX,
    ];

    /// Compares fields in a buffer with those in a vector.
    fn both(write: impl Fn(&mut dyn FnMut(&mut dyn FnMut(&mut Buffer), &mut dyn FnMut(&mut Vec<u8>)))) {
        let (mut buffer, mut plain) = (Buffer::default(), Vec::new());
        write(&mut |ours, theirs| {
            ours(&mut buffer);
            theirs(&mut plain);
        });
        assert_eq!(*buffer, plain);
    }

    #[test]
    fn numbers_equal_those_of_a_vector() {
        for value in VALUES {
            both(|each| {
                each(&mut |it| it.varint(value), &mut |it| it.varint(value));
                each(&mut |it| it.number(5, value), &mut |it| it.number(5, value));
                each(&mut |it| it.number_or_zero(6, value), &mut |it| it.number_or_zero(6, value));
                let len = value as usize;
                each(&mut |it| it.message(7, len), &mut |it| it.message(7, len));
            });
        }
    }

    #[test]
    fn buffer_grows() {
        let mut buffer = Buffer::default();
        let numbers: Vec<u64> = (0..10_000).collect();
        buffer.put(&[7; 5_000]);
        buffer.fixed64s(&numbers);
        assert_eq!(buffer.len(), 5_000 + 80_000);
        assert_eq!(buffer[5_000 + 8 * 300..][..8], 300u64.to_le_bytes());
        buffer.truncate(1);
        assert_eq!(*buffer, [7]);
        buffer.clear();
        assert_eq!(*buffer, []);
    }

    #[test]
    fn messages_are_preceded_by_their_length() {
        for len in [0, 1, 127, 128, 300, 20_000] {
            let content = vec![3; len];
            both(|each| {
                each(&mut |it| assert_eq!(it.message_of(4, |it| it.put(&content)), len), &mut |it| {
                    it.bytes(4, &content)
                });
                each(&mut |it| it.put(b"end"), &mut |it| it.put(b"end"));
            });
        }
    }

    #[test]
    fn pieces_and_encoded_numbers_keep_their_bytes() {
        let mut buffer = Buffer::default();
        buffer.piece(Piece::new(b"abc"));
        buffer.piece(Piece::default());
        buffer.piece(Piece::new(b"sixteen bytes .."));
        assert_eq!(*buffer, *b"abcsixteen bytes ..");
        for value in VALUES.into_iter().filter_map(|value| u32::try_from(value).ok()) {
            both(|each| each(&mut |it| it.kept(Kept::varint(value)), &mut |it| it.varint(value.into())));
            both(|each| {
                each(&mut |it| it.kept(Kept::field(15, value)), &mut |it| {
                    it.number_or_zero(15, value.into())
                });
            });
        }
    }
}
