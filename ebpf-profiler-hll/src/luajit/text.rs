//! Reads strings: `GCstr`.
//!
//! ```text
//!   WIDE                header, length, 24 bytes                      bytes…, 0
//!   COMPACT             header, hash, length at 12                    bytes…, 0
//!   COMPACT since 2020  header, number, hash, length at 16            bytes…, 0
//! ```

use ebpf_profiler_core::language::{Memory, Reason};
use ebpf_programs::abi::luajit::{Layout, WIDE, kind};

use crate::c_text::CText;

/// Offset of the bytes in a string of a build with references of 8 bytes.
const BYTES: u64 = 24;

/// Offsets of the length in a string of one with references of 4 bytes. The bytes are behind it.
const LENGTHS: [u64; 2] = [12, 16];

/// Maximum length of a string, in bytes; longer ones are truncated.
const MAX_TEXT: usize = 4096;

/// Marks a truncated string.
const ELLIPSIS: char = '…';

/// Reads the string object at an address, up to its first zero byte.
pub(super) fn read(at: u64, layout: &Layout, memory: &dyn Memory) -> Result<String, Reason> {
    if at == 0 || !at.is_multiple_of(8) {
        return Err(Reason::Implausible);
    }
    if memory.array(at.wrapping_add(layout.kind as u64))? != [kind::STRING] {
        return Err(Reason::Implausible);
    }
    if layout.reference == WIDE.reference {
        return read_bytes(at.wrapping_add(BYTES), memory);
    }
    for length_at in LENGTHS {
        let length_at = at.wrapping_add(length_at);
        let text = CText::read(length_at.wrapping_add(4), MAX_TEXT, memory)?;
        if is_length(memory.u32(length_at)?, &text) {
            return Ok(into_string(text));
        }
    }
    Err(Reason::Implausible)
}

/// Returns `true` if a number is the length of a text, as far as it was read.
fn is_length(number: u32, text: &CText) -> bool {
    let length = text.bytes.len();
    if text.is_cut { number as usize >= length } else { number as usize == length }
}

/// Reads the bytes at an address, up to the first zero byte.
pub(super) fn read_bytes(at: u64, memory: &dyn Memory) -> Result<String, Reason> {
    Ok(into_string(CText::read(at, MAX_TEXT, memory)?))
}

fn into_string(CText { bytes, is_cut }: CText) -> String {
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if is_cut {
        text.push(ELLIPSIS);
    }
    text
}

#[cfg(test)]
mod tests {
    use ebpf_profiler_core::language::Unreadable;
    use ebpf_programs::abi::luajit::COMPACT;

    use super::*;

    /// Reads a string in memory that ends at a multiple of 64 behind it.
    fn read_object(mut bytes: Vec<u8>, layout: &Layout) -> Result<String, Reason> {
        bytes.resize(bytes.len().next_multiple_of(64), b'!');
        let memory = move |address: u64, buffer: &mut [u8]| {
            let at = address.checked_sub(0x1000).ok_or(Unreadable)? as usize;
            buffer.copy_from_slice(bytes.get(at..at + buffer.len()).ok_or(Unreadable)?);
            Ok(())
        };
        read(0x1000, layout, &memory)
    }

    fn read_string(kind: u8, text: &[u8]) -> Result<String, Reason> {
        read_object([&[0; 9], &[kind][..], &[0; 14], text].concat(), &WIDE)
    }

    #[test]
    fn reads_short_long_and_foreign_names() {
        assert_eq!(read_string(4, b"area\0").as_deref(), Ok("area"));
        assert_eq!(read_string(4, "café\0".as_bytes()).as_deref(), Ok("café"));
        assert_eq!(read_string(4, &[&[b'x'; 1000][..], b"\0"].concat()), Ok("x".repeat(1000)));
        assert_eq!(read_string(4, &[b'x'; 5000]), Ok("x".repeat(4096) + "…"));
        assert_eq!(read_string(4, b"\0").as_deref(), Ok(""));
    }

    #[test]
    fn reads_both_kinds_of_short_headers() {
        let long = [&[b'x'; 5000][..], b"\0"].concat();
        for text in [&b"area\0"[..], b"x\0", b"\0", &long] {
            let length = (text.len() as u32 - 1).to_le_bytes();
            let head = [&[0; 5][..], &[4, 0, 0]].concat();
            let expected = read_string(4, text);
            let old = [&head[..], b"hash", &length, text].concat();
            assert_eq!(read_object(old, &COMPACT), expected);
            let new = [&head[..], b"\x12\0\0\0hash", &length, text].concat();
            assert_eq!(read_object(new, &COMPACT), expected);
        }
        let wrong = [&[0; 5][..], b"\x04\0\0hash\x07\0\0\0area\0"].concat();
        assert_eq!(read_object(wrong, &COMPACT), Err(Reason::Implausible));
    }

    #[test]
    fn rejects_other_objects_and_memory_that_ends() {
        assert_eq!(read_string(5, b"area\0"), Err(Reason::Implausible));
        assert_eq!(read_string(4, b"area"), Err(Reason::Unreadable));
    }
}
