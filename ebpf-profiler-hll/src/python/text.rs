//! Reads strings: names and paths.
//!
//! ```text
//!   str    length, state {interned 2, kind 3: bytes a character takes, compact 1, ascii 1 bits}, characters
//!   bytes  size, data
//! ```

use ebpf_profiler_core::language::{Memory, Reason};

use super::offsets::{BytesOffsets, TextOffsets};

/// Maximum length of a string, in bytes; longer ones are truncated.
const MAX_TEXT: usize = 4096;

/// Number of bytes of the first read, which holds nearly all strings completely.
const FIRST: usize = 192;

/// Marks a truncated string.
const ELLIPSIS: char = '…';

/// Reads the `str` at an address.
pub(super) fn read_str(at: u64, offsets: &TextOffsets, memory: &dyn Memory) -> Result<Box<str>, Reason> {
    let head = Piece::read(at, offsets.wide as usize, memory)?;
    let state = head.u32(offsets.state)?;
    // The field before the kind is at most 3. It takes two bits, in free-threaded builds one byte, from
    // 3.14 on two. The kind is never 0.
    let state = [2, 8, 16].map(|shift| state >> shift).into_iter().find(|state| state & 7 != 0).unwrap_or(0);
    let (kind, compact, ascii) = (state & 7, state & 8 != 0, state & 16 != 0);
    let length = head.u64(offsets.length)?;
    // Names are always compact strings.
    if !compact || !matches!(kind, 1 | 2 | 4) || (ascii && kind != 1) || length > 1 << 32 {
        return Err(Reason::Implausible);
    }
    let taken = (length as usize).min(MAX_TEXT);
    let data = if ascii { offsets.ascii } else { offsets.wide };
    let bytes = head.bytes(data as usize, taken * kind as usize, memory)?;
    let text: String = bytes.chunks_exact(kind as usize).map(character).collect();
    Ok(truncate(text, (length as usize) > taken))
}

/// Reads the `bytes` at an address as text: the `str` of 2.7.
pub(super) fn read_bytes_as_text(
    at: u64,
    offsets: &BytesOffsets,
    memory: &dyn Memory,
) -> Result<Box<str>, Reason> {
    let head = Piece::read(at, offsets.data as usize, memory)?;
    let size = head.u64(offsets.size)?;
    if size > 1 << 32 {
        return Err(Reason::Implausible);
    }
    let taken = (size as usize).min(MAX_TEXT);
    let bytes = head.bytes(offsets.data as usize, taken, memory)?;
    Ok(truncate(String::from_utf8_lossy(&bytes).into_owned(), size as usize > taken))
}

/// Reads the `bytes` at an address; fails if they are longer than `limit`.
pub(super) fn read_bytes(
    at: u64,
    offsets: &BytesOffsets,
    limit: usize,
    memory: &dyn Memory,
) -> Result<Vec<u8>, Reason> {
    let head = Piece::read(at, offsets.data as usize, memory)?;
    let size = head.u64(offsets.size)?;
    match usize::try_from(size).ok().filter(|&size| size <= limit) {
        Some(size) => head.bytes(offsets.data as usize, size, memory),
        None => Err(Reason::Implausible),
    }
}

/// Decodes one character of one, two or four bytes.
fn character(bytes: &[u8]) -> char {
    let code = bytes.iter().rev().fold(0, |code, &byte| code << 8 | u32::from(byte));
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn truncate(mut text: String, shortened: bool) -> Box<str> {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push(ELLIPSIS);
    } else if shortened {
        text.push(ELLIPSIS);
    }
    text.into()
}

/// The first bytes of an object.
struct Piece {
    address: u64,
    bytes: [u8; FIRST],
    len: usize,
}

impl Piece {
    /// Reads [`FIRST`] bytes, or `least` if fewer are readable.
    fn read(address: u64, least: usize, memory: &dyn Memory) -> Result<Piece, Reason> {
        let mut piece = Piece { address, bytes: [0; FIRST], len: FIRST };
        if address == 0 || !address.is_multiple_of(8) || least > FIRST {
            return Err(Reason::Implausible);
        }
        if memory.read(address, &mut piece.bytes).is_err() {
            // The object may be the last one of a mapping.
            piece.len = least;
            memory.read(address, &mut piece.bytes[..least])?;
        }
        Ok(piece)
    }

    fn u64(&self, at: u32) -> Result<u64, Reason> {
        self.array(at).map(u64::from_le_bytes)
    }

    fn u32(&self, at: u32) -> Result<u32, Reason> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn array<const N: usize>(&self, at: u32) -> Result<[u8; N], Reason> {
        let rest = self.bytes[..self.len].get(at as usize..).unwrap_or_default();
        rest.first_chunk().copied().ok_or(Reason::Implausible)
    }

    /// Returns `len` bytes from `start` on, with a second read if the first one doesn't cover them.
    fn bytes(&self, start: usize, len: usize, memory: &dyn Memory) -> Result<Vec<u8>, Reason> {
        if let Some(bytes) = self.bytes[..self.len].get(start..start.saturating_add(len)) {
            return Ok(bytes.to_vec());
        }
        Ok(memory.bytes(self.address.wrapping_add(start as u64), len as u64, len)?)
    }
}
