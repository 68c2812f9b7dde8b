//! Protocol buffers, the few parts of the wire format that profiles need.
//!
//! ```text
//! field   = tag, value          tag = number << 3 | kind, one byte for numbers up to 15
//! varint  = seven bits a byte, lowest first, the top bit says that more follow      (kind 0)
//! fixed64 = eight bytes, little endian                                              (kind 1)
//! bytes   = varint length, then as many bytes: text, messages, packed numbers       (kind 2)
//! ```
//!
//! Numbers that are zero are left out, as proto3 wants it, where a function doesn't say otherwise.

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;

/// The tag of a field of bytes, text, a message or packed numbers.
pub(crate) const fn bytes_tag(field: u8) -> u8 {
    field << 3 | BYTES
}

/// How many bytes a varint takes.
pub(crate) const fn varint_len(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    // Divides by 7, rounding up, for all numbers of bits that there are.
    ((bits * 9 + 64) / 64) as usize
}

/// How many bytes a field of bytes takes.
pub(crate) const fn bytes_len(content: usize) -> usize {
    1 + varint_len(content as u64) + content
}

/// How many bytes a number's field takes, none if it is zero.
pub(crate) const fn number_len(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + varint_len(value) }
}

/// A varint that is written more than once: its bytes, and in the top byte how many there are.
///
/// It is appended by a store of fixed length, without a look at the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Varint(u64);

impl Varint {
    pub(crate) fn new(value: u32) -> Varint {
        let mut bytes = [0; 8];
        let (mut rest, mut len) = (value, 0);
        while rest >= 0x80 {
            bytes[len] = rest as u8 | 0x80;
            rest >>= 7;
            len += 1;
        }
        bytes[len] = rest as u8;
        bytes[7] = len as u8 + 1;
        Varint(u64::from_le_bytes(bytes))
    }

    /// Writes the bytes to the start of `buffer`, and others that don't count behind them; says how many count.
    #[inline]
    pub(crate) fn store(self, buffer: &mut [u8; 8]) -> usize {
        *buffer = self.0.to_le_bytes();
        (self.0 >> 56) as usize
    }
}

/// Appends fields to a buffer.
pub(crate) trait Wire {
    /// A varint alone.
    fn varint(&mut self, value: u64);

    /// A number, left out if zero.
    fn number(&mut self, field: u8, value: u64);

    /// A number, also if zero: for a `oneof`, where being there means something.
    fn number_or_zero(&mut self, field: u8, value: u64);

    /// A number of eight bytes, left out if zero.
    fn fixed64(&mut self, field: u8, value: u64);

    /// Bytes or text, also if empty.
    fn bytes(&mut self, field: u8, content: &[u8]);

    /// The head of a message whose `len` bytes follow.
    fn message(&mut self, field: u8, len: usize);

    /// Numbers in one field, left out if there are none.
    fn packed(&mut self, field: u8, values: &[u32]);

    /// Numbers of eight bytes, as they stand in a packed field.
    fn fixed64s(&mut self, values: &[u64]);
}

impl Wire for Vec<u8> {
    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    #[inline]
    fn number(&mut self, field: u8, value: u64) {
        if value != 0 {
            self.number_or_zero(field, value);
        }
    }

    #[inline]
    fn number_or_zero(&mut self, field: u8, value: u64) {
        self.push(field << 3 | VARINT);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u8, value: u64) {
        if value != 0 {
            self.push(field << 3 | FIXED64);
            self.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn bytes(&mut self, field: u8, content: &[u8]) {
        self.message(field, content.len());
        self.extend_from_slice(content);
    }

    #[inline]
    fn message(&mut self, field: u8, len: usize) {
        self.push(bytes_tag(field));
        self.varint(len as u64);
    }

    #[inline]
    fn packed(&mut self, field: u8, values: &[u32]) {
        if values.is_empty() {
            return;
        }
        self.message(field, values.iter().map(|&value| varint_len(value.into())).sum());
        for &value in values {
            self.varint(value.into());
        }
    }

    #[inline]
    fn fixed64s(&mut self, values: &[u64]) {
        self.reserve(values.len() * 8);
        values.iter().for_each(|value| self.extend_from_slice(&value.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_what_is_written() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u32::MAX.into(), u64::MAX / 2, u64::MAX] {
            let mut buffer = Vec::new();
            buffer.varint(value);
            assert_eq!(buffer.len(), varint_len(value), "{value}");
            buffer.clear();
            buffer.number(1, value);
            assert_eq!(buffer.len(), number_len(value), "{value}");
        }
    }

    #[test]
    fn varints_kept_are_those_written() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 2_097_152, u32::MAX] {
            let (mut buffer, mut kept) = (Vec::new(), [0; 8]);
            buffer.varint(value.into());
            let len = Varint::new(value).store(&mut kept);
            assert_eq!(kept[..len], buffer, "{value}");
        }
    }

    #[test]
    fn bytes_on_the_wire() {
        let mut buffer = Vec::new();
        buffer.number(1, 150);
        buffer.number(2, 0);
        buffer.number_or_zero(3, 0);
        buffer.bytes(2, b"hi");
        buffer.fixed64(3, 1);
        buffer.packed(4, &[3, 270]);
        buffer.fixed64s(&[2]);
        let expected = [
            &[0x08, 0x96, 0x01, 0x18, 0x00, 0x12, 2, b'h', b'i'][..],
            &[0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x22, 3, 3, 0x8e, 0x02, 2, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(buffer, expected.concat());
    }
}
