//! Reads strings: `zend_string`, `{counts and hash 16, len u64, bytes…}`.

use ebpf_profiler_core::language::{Memory, Reason};

/// Offset of the hash in a string.
pub(super) const HASH: u64 = 8;

/// Offset of the bytes in a string.
const BYTES: u64 = 24;

/// Maximum length of a string, in bytes; longer ones are truncated.
const MAX_TEXT: usize = 4096;

/// Number of bytes of the first read, which holds nearly all names completely.
const FIRST: usize = 96;

/// Marks a truncated string.
const ELLIPSIS: char = '…';

/// Reads the string at an address, up to its first zero byte.
///
/// The name of an anonymous class has a zero byte before the file that declares it.
pub(super) fn read(at: u64, memory: &dyn Memory) -> Result<String, Reason> {
    if at == 0 || !at.is_multiple_of(8) {
        return Err(Reason::Implausible);
    }
    let mut head = [0; FIRST];
    let read = match memory.read(at, &mut head) {
        Ok(()) => FIRST,
        // The string may be the last one of a mapping.
        Err(_) => {
            memory.read(at, &mut head[..BYTES as usize])?;
            BYTES as usize
        }
    };
    let length = head[16..].first_chunk().map_or(0, |&eight| u64::from_le_bytes(eight));
    if length > 1 << 32 {
        return Err(Reason::Implausible);
    }
    let taken = (length as usize).min(MAX_TEXT);
    let bytes = match head[..read].get(BYTES as usize..BYTES as usize + taken) {
        Some(bytes) => bytes.to_vec(),
        None => memory.bytes(at.wrapping_add(BYTES), taken as u64, MAX_TEXT)?,
    };
    let end = bytes.iter().position(|&byte| byte == 0);
    let mut text = String::from_utf8_lossy(&bytes[..end.unwrap_or(taken)]).into_owned();
    if end.is_none() && length as usize > taken {
        text.push(ELLIPSIS);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use ebpf_profiler_core::language::Unreadable;

    use super::*;

    /// Reads a string in memory that ends with it.
    fn read_string(length: u64, text: &[u8]) -> Result<String, Reason> {
        let bytes = [&[0; 16], &length.to_le_bytes()[..], text].concat();
        let memory = move |address: u64, buffer: &mut [u8]| {
            let at = address.checked_sub(0x1000).ok_or(Unreadable)? as usize;
            buffer.copy_from_slice(bytes.get(at..at + buffer.len()).ok_or(Unreadable)?);
            Ok(())
        };
        read(0x1000, &memory)
    }

    #[test]
    fn reads_short_long_and_anonymous_names() {
        assert_eq!(read_string(4, b"cafe").as_deref(), Ok("cafe"));
        assert_eq!(read_string(5, "café".as_bytes()).as_deref(), Ok("café"));
        assert_eq!(read_string(17, b"class@anonymous\0/").as_deref(), Ok("class@anonymous"));
        assert_eq!(read_string(1000, &[b'x'; 1000]), Ok("x".repeat(1000)));
        assert_eq!(read_string(5000, &[b'x'; 5000]), Ok("x".repeat(4096) + "…"));
        assert_eq!(read_string(0, b""), Ok(String::new()));
    }

    #[test]
    fn rejects_implausible_strings() {
        assert_eq!(read_string(1 << 40, b"cafe"), Err(Reason::Implausible));
        assert_eq!(read_string(8, b"cafe"), Err(Reason::Unreadable));
        let nothing = |_: u64, _: &mut [u8]| Err(Unreadable);
        assert_eq!(read(0, &nothing), Err(Reason::Implausible));
        assert_eq!(read(0x1001, &nothing), Err(Reason::Implausible));
        assert_eq!(read(0x1000, &nothing), Err(Reason::Unreadable));
    }
}
