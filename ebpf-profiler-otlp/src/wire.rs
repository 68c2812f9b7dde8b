//! The parts of the Protocol Buffers wire format that profiles use.
//!
//! ```text
//! field   = tag, value          tag = number << 3 | kind, one byte for numbers up to 15
//! varint  = seven bits a byte, lowest first, the top bit set if more follow         (kind 0)
//! fixed64 = eight bytes, little endian                                              (kind 1)
//! bytes   = varint length and that many bytes: text, messages, packed numbers       (kind 2)
//! ```
//!
//! Zero is omitted, as in proto3, unless a function's documentation says otherwise.

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;

/// Returns the tag of a field of bytes, text, a message or packed numbers.
pub(crate) const fn bytes_tag(field: u8) -> u8 {
    field << 3 | BYTES
}

/// Returns the tag of a field of one number.
pub(crate) const fn number_tag(field: u8) -> u8 {
    field << 3 | VARINT
}

/// Returns the size of a varint in bytes.
pub(crate) const fn varint_len(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    // Division by 7, rounded up, for 1 to 64 bits.
    ((bits * 9 + 64) / 64) as usize
}

/// Returns the size of a field of bytes.
pub(crate) const fn bytes_len(content: usize) -> usize {
    1 + varint_len(content as u64) + content
}

/// Returns the size of a number's field; 0 if the number is zero.
pub(crate) const fn number_len(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + varint_len(value) }
}

/// Appends fields.
pub(crate) trait Wire {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends a varint without a tag.
    fn varint(&mut self, value: u64);

    /// Appends a number; omitted if zero.
    fn number(&mut self, field: u8, value: u64) {
        if value != 0 {
            self.number_or_zero(field, value);
        }
    }

    /// Appends a number, also if zero: for a `oneof`, where presence has a meaning.
    fn number_or_zero(&mut self, field: u8, value: u64) {
        self.put(&[number_tag(field)]);
        self.varint(value);
    }

    /// Appends a number of eight bytes; omitted if zero.
    fn fixed64(&mut self, field: u8, value: u64) {
        if value != 0 {
            self.put(&[field << 3 | FIXED64]);
            self.fixed64s(&[value]);
        }
    }

    /// Appends bytes or text, also if empty.
    fn bytes(&mut self, field: u8, content: &[u8]) {
        self.message(field, content.len());
        self.put(content);
    }

    /// Appends the tag and length of a message of `len` bytes.
    fn message(&mut self, field: u8, len: usize) {
        self.put(&[bytes_tag(field)]);
        self.varint(len as u64);
    }

    /// Appends packed numbers; omitted if there are none.
    fn packed(&mut self, field: u8, values: &[u32]) {
        if values.is_empty() {
            return;
        }
        self.message(field, values.iter().map(|&value| varint_len(value.into())).sum());
        values.iter().for_each(|&value| self.varint(value.into()));
    }

    /// Appends the content of a packed field of eight-byte numbers.
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
    fn lengths_equal_the_written_sizes() {
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
