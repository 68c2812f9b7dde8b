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

/// The tag of a field of one number.
pub(crate) const fn number_tag(field: u8) -> u8 {
    field << 3 | VARINT
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

/// Appends fields.
pub(crate) trait Wire {
    /// Bytes as they are.
    fn put(&mut self, bytes: &[u8]);

    /// A varint alone.
    fn varint(&mut self, value: u64);

    /// A number, left out if zero.
    fn number(&mut self, field: u8, value: u64) {
        if value != 0 {
            self.number_or_zero(field, value);
        }
    }

    /// A number, also if zero: for a `oneof`, where being there means something.
    fn number_or_zero(&mut self, field: u8, value: u64) {
        self.put(&[number_tag(field)]);
        self.varint(value);
    }

    /// A number of eight bytes, left out if zero.
    fn fixed64(&mut self, field: u8, value: u64) {
        if value != 0 {
            self.put(&[field << 3 | FIXED64]);
            self.fixed64s(&[value]);
        }
    }

    /// Bytes or text, also if empty.
    fn bytes(&mut self, field: u8, content: &[u8]) {
        self.message(field, content.len());
        self.put(content);
    }

    /// The head of a message whose `len` bytes follow.
    fn message(&mut self, field: u8, len: usize) {
        self.put(&[bytes_tag(field)]);
        self.varint(len as u64);
    }

    /// Numbers in one field, left out if there are none.
    fn packed(&mut self, field: u8, values: &[u32]) {
        if values.is_empty() {
            return;
        }
        self.message(field, values.iter().map(|&value| varint_len(value.into())).sum());
        values.iter().for_each(|&value| self.varint(value.into()));
    }

    /// Numbers of eight bytes, as they stand in a packed field.
    fn fixed64s(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.put(&value.to_le_bytes()));
    }
}

impl Wire for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
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
