//! gzip with block boundaries at the sections of a message.
//!
//! ```text
//!   message   resources, samples │ strings │ attributes │ functions │ mappings │ locations │ stacks
//!   gzip      a block            │ a block │ ...
//! ```
//!
//! Each block of a gzip stream has a Huffman code for the byte frequencies in it. Times, text,
//! hexadecimal digits and numbers differ in them, so blocks that end with a table make the output
//! about 5 % smaller at no cost.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Compresses a message; the field with the tag `inner`, if any, contains the tables.
pub(crate) fn gzip(message: &[u8], inner: Option<u8>, level: Compression) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(message.len() / 2), level);
    let mut start = 0;
    // Writing to memory does not fail.
    let written = cuts(message, inner).into_iter().try_for_each(|cut| {
        let section = &message[start..cut];
        start = cut;
        encoder.write_all(section)?;
        encoder.flush()
    });
    let written = written.and_then(|()| encoder.write_all(&message[start..])).and_then(|()| encoder.finish());
    written.unwrap_or_default().into()
}

/// Returns the offsets of the boundaries between sections.
fn cuts(message: &[u8], mut inner: Option<u8>) -> Vec<usize> {
    let (mut cuts, mut last, mut at) = (Vec::new(), 0, 0);
    let mut before = None;
    while let Some((tag, content, end)) = field(message, at) {
        if before != Some(tag) && at >= last + MIN_SECTION {
            cuts.push(at);
            last = at;
        }
        before = Some(tag);
        // Fields of the inner message follow as if they were fields of the outer one.
        at = if inner == Some(tag) { content } else { end };
        inner = inner.filter(|&inner| inner != tag);
    }
    cuts
}

/// Minimum size of a section in bytes; a block's code takes some 100 bytes.
const MIN_SECTION: usize = 512;

/// Returns the tag of the field at `start`, and the offsets of its content and its end.
fn field(message: &[u8], start: usize) -> Option<(u8, usize, usize)> {
    const VARINT: u8 = 0;
    const BYTES: u8 = 2;
    let &tag = message.get(start)?;
    let (number, content) = varint(message, start + 1)?;
    let end = match tag & 7 {
        VARINT => content,
        BYTES => content.checked_add(usize::try_from(number).ok()?)?,
        _ => return None,
    };
    (end <= message.len()).then_some((tag, content, end))
}

fn varint(message: &[u8], start: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for (place, shift) in (start..).zip((0..64).step_by(7)) {
        let &byte = message.get(place)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((value, place + 1));
        }
    }
    None
}

/// Decompresses to at most `limit` bytes; `None` if the result is larger or the input malformed.
#[cfg(all(feature = "http", feature = "gzip"))]
pub(crate) fn gunzip(bytes: &[u8], limit: usize) -> Option<Bytes> {
    use std::io::Read;
    let mut message = Vec::new();
    // One byte more than the limit distinguishes a message that is too large.
    let read = (limit as u64).saturating_add(1);
    flate2::read::GzDecoder::new(bytes).take(read).read_to_end(&mut message).ok()?;
    (message.len() <= limit).then(|| message.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Wire;

    const DICTIONARY: u8 = 2 << 3 | 2;

    /// Three sections, the last two in one field.
    fn message() -> Vec<u8> {
        let (mut message, mut tables) = (Vec::new(), Vec::new());
        (0..100).for_each(|_| message.bytes(1, b"a resource"));
        (0..100).for_each(|_| tables.bytes(2, b"a location"));
        (0..100).for_each(|_| tables.bytes(5, b"a string"));
        message.bytes(2, &tables);
        message
    }

    #[test]
    fn sections_end_at_another_field() {
        let message = message();
        // The dictionary's tag and length take four bytes; its locations have the same tag as the
        // dictionary.
        assert_eq!(cuts(&message, Some(DICTIONARY)), [1_200, 1_200 + 3 + 1_200]);
        assert_eq!(cuts(&message, None), [1_200]);
        assert_eq!(cuts(&message[..600], None), [0; 0]);
    }

    #[test]
    fn malformed_message_is_one_section() {
        for bytes in
            [&b""[..], &[0xff; 2_000], &[0x0b; 2_000], b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]
        {
            assert_eq!(cuts(bytes, Some(DICTIONARY)), [0; 0], "{bytes:?}");
        }
    }

    #[cfg(all(feature = "http", feature = "gzip"))]
    #[test]
    fn decompression_restores_the_message() {
        let message = message();
        for level in 1..=9 {
            let packed = gzip(&message, Some(DICTIONARY), Compression::new(level));
            assert!(packed.len() < message.len() / 4);
            assert_eq!(gunzip(&packed, message.len()).as_deref(), Some(&message[..]));
        }
        assert_eq!(gunzip(&gzip(b"", None, Compression::fast()), 0).as_deref(), Some(&b""[..]));
    }
}
