//! Strings: names and paths.
//!
//! ```text
//!   str    length, state {interned 2, kind 3: bytes a character takes, compact 1, ascii 1 bits}, characters
//!   bytes  size, data
//! ```

use ebpf_profiler_core::language::{Memory, Reason};

use super::offsets::{BytesOffsets, TextOffsets};

/// Longer ones are cut.
const MAX_TEXT: usize = 4096;

/// What is read at first: nearly all of them whole.
const FIRST: usize = 192;

/// Stands where one was cut.
const CUT: char = '…';

/// The `str` at an address.
pub(super) fn read_str(at: u64, offsets: &TextOffsets, memory: &dyn Memory) -> Result<Box<str>, Reason> {
    let head = Piece::read(at, offsets.wide as usize, memory)?;
    let state = head.u32(offsets.state)?;
    // What stands before the kind takes two bits, one byte in free-threaded builds, or two from 3.14 on; it is 3 at
    // most. The kind is never 0.
    let state = [2, 8, 16].map(|shift| state >> shift).into_iter().find(|state| state & 7 != 0).unwrap_or(0);
    let (kind, compact, ascii) = (state & 7, state & 8 != 0, state & 16 != 0);
    let length = head.u64(offsets.length)?;
    // Names are made in one piece.
    if !compact || !matches!(kind, 1 | 2 | 4) || (ascii && kind != 1) || length > 1 << 32 {
        return Err(Reason::Implausible);
    }
    let taken = (length as usize).min(MAX_TEXT);
    let data = if ascii { offsets.ascii } else { offsets.wide };
    let bytes = head.bytes(data as usize, taken * kind as usize, memory)?;
    let text: String = bytes.chunks_exact(kind as usize).map(character).collect();
    Ok(cut(text, (length as usize) > taken))
}

/// The `bytes` at an address, as text: 2.7's `str`.
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
    Ok(cut(String::from_utf8_lossy(&bytes).into_owned(), size as usize > taken))
}

/// The `bytes` at an address, `limit` at most.
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

/// One character of one, two or four bytes.
fn character(bytes: &[u8]) -> char {
    let code = bytes.iter().rev().fold(0, |code, &byte| code << 8 | u32::from(byte));
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn cut(mut text: String, shortened: bool) -> Box<str> {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push(CUT);
    } else if shortened {
        text.push(CUT);
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
    /// Reads `least` bytes, and more where they are there.
    fn read(address: u64, least: usize, memory: &dyn Memory) -> Result<Piece, Reason> {
        let mut piece = Piece { address, bytes: [0; FIRST], len: FIRST };
        if address == 0 || !address.is_multiple_of(8) || least > FIRST {
            return Err(Reason::Implausible);
        }
        if memory.read(address, &mut piece.bytes).is_err() {
            // It may be the last thing before the end of what is mapped.
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

    /// `len` bytes from `start` on; read anew where they aren't in what was read.
    fn bytes(&self, start: usize, len: usize, memory: &dyn Memory) -> Result<Vec<u8>, Reason> {
        if let Some(bytes) = self.bytes[..self.len].get(start..start.saturating_add(len)) {
            return Ok(bytes.to_vec());
        }
        Ok(memory.bytes(self.address.wrapping_add(start as u64), len as u64, len)?)
    }
}
