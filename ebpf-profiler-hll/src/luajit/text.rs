//! Reads strings: `GCstr`, `{header 24, bytes…, 0}`.

use ebpf_profiler_core::language::{Memory, Reason};

use crate::c_text::CText;

/// Offset of the bytes in a string.
const BYTES: u64 = 24;

/// Offset of the kind of an object, and the kind of strings.
const KIND: (u64, u8) = (9, 4);

/// Maximum length of a string, in bytes; longer ones are truncated.
const MAX_TEXT: usize = 4096;

/// Marks a truncated string.
const ELLIPSIS: char = '…';

/// Reads the string object at an address, up to its first zero byte.
pub(super) fn read(at: u64, memory: &dyn Memory) -> Result<String, Reason> {
    if at == 0 || !at.is_multiple_of(8) || memory.array(at.wrapping_add(KIND.0))? != [KIND.1] {
        return Err(Reason::Implausible);
    }
    read_bytes(at.wrapping_add(BYTES), memory)
}

/// Reads the bytes at an address, up to the first zero byte.
pub(super) fn read_bytes(at: u64, memory: &dyn Memory) -> Result<String, Reason> {
    let CText { bytes, is_cut } = CText::read(at, MAX_TEXT, memory)?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if is_cut {
        text.push(ELLIPSIS);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use ebpf_profiler_core::language::Unreadable;

    use super::*;

    /// Reads a string in memory that ends at a multiple of 64 behind it.
    fn read_string(kind: u8, text: &[u8]) -> Result<String, Reason> {
        let mut bytes = [&[0; 9], &[kind][..], &[0; 14], text].concat();
        bytes.resize(bytes.len().next_multiple_of(64), b'!');
        let memory = move |address: u64, buffer: &mut [u8]| {
            let at = address.checked_sub(0x1000).ok_or(Unreadable)? as usize;
            buffer.copy_from_slice(bytes.get(at..at + buffer.len()).ok_or(Unreadable)?);
            Ok(())
        };
        read(0x1000, &memory)
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
    fn rejects_other_objects_and_memory_that_ends() {
        assert_eq!(read_string(5, b"area\0"), Err(Reason::Implausible));
        assert_eq!(read_string(4, b"area"), Err(Reason::Unreadable));
    }
}
