//! Reads strings.
//!
//! | representation | fields |
//! | --- | --- |
//! | sequential | characters, of one or two bytes |
//! | cons | first and second string |
//! | sliced | parent and offset |
//! | thin | actual string |
//! | external | pointer to a resource, pointer to its characters |

use ebpf_profiler_core::language::Reason;

use super::heap::{Heap, Object, small_int};

/// Maximum length of a name, in characters; longer ones are truncated.
const MAX_NAME: usize = 2048;

/// Maximum number of strings that one string consists of.
const MAX_PARTS: usize = 4096;

/// Offset of a string's length.
const LENGTH: u32 = 12;

/// Offset of the first field behind it.
const FIRST: u32 = 16;

/// Offset of the second field behind it.
const SECOND: u32 = 24;

/// Bits of a string's type.
mod kind {
    pub(super) const REPRESENTATION: u16 = 7;
    pub(super) const SEQUENTIAL: u16 = 0;
    pub(super) const CONS: u16 = 1;
    pub(super) const EXTERNAL: u16 = 2;
    pub(super) const SLICED: u16 = 3;
    pub(super) const THIN: u16 = 5;
    pub(super) const ONE_BYTE: u16 = 8;
    /// An external string without a pointer to its characters.
    pub(super) const UNCACHED: u16 = 16;
}

/// Reads a name; a longer one ends with an ellipsis.
pub(super) fn read_name(heap: &Heap<'_>, string: Object) -> Result<String, Reason> {
    let (mut units, is_whole) = read_units(heap, string, MAX_NAME)?;
    if !is_whole {
        units.push(0x2026);
    }
    Ok(String::from_utf16_lossy(&units))
}

/// Reads up to `limit` UTF-16 units of a string. The second value is `false` if there are more.
fn read_units(heap: &Heap<'_>, string: Object, limit: usize) -> Result<(Vec<u16>, bool), Reason> {
    let mut units = Vec::new();
    let is_whole = for_each_piece(heap, string, limit, &mut |piece| units.extend_from_slice(piece))?;
    Ok((units, is_whole))
}

/// Calls `each` with up to `limit` UTF-16 units of a string, in pieces. Returns `false` if there
/// are more.
pub(super) fn for_each_piece(
    heap: &Heap<'_>,
    string: Object,
    limit: usize,
    each: &mut dyn FnMut(&[u16]),
) -> Result<bool, Reason> {
    let mut done = 0;
    // Strings that follow, with the range of them that is part of the result.
    let mut rest = vec![(string, 0, usize::MAX)];
    let mut parts = 0;
    while let Some((string, from, count)) = rest.pop() {
        parts += 1;
        if parts > MAX_PARTS {
            return Err(Reason::Implausible);
        }
        let kind = heap.kind(string)?;
        if kind >= heap.layout.types.first_other {
            return Err(Reason::Implausible);
        }
        let length = heap.number(string, LENGTH)? as usize;
        let count = count.min(length.saturating_sub(from));
        let room = limit - done;
        match kind & kind::REPRESENTATION {
            kind::SEQUENTIAL => read_pieces(heap, string.field(FIRST), kind, from, count.min(room), each)?,
            kind::EXTERNAL if kind & kind::UNCACHED == 0 => {
                let characters = heap.word(string, SECOND)?;
                read_pieces(heap, characters, kind, from, count.min(room), each)?;
            }
            kind::CONS => {
                let first = heap.object(string, FIRST)?;
                let middle = heap.number(first, LENGTH)? as usize;
                if from + count > middle {
                    let skipped = from.saturating_sub(middle);
                    let count = from + count - middle.max(from);
                    rest.push((heap.object(string, SECOND)?, skipped, count));
                }
                if from < middle {
                    rest.push((first, from, count.min(middle - from)));
                }
                continue;
            }
            kind::SLICED => {
                let offset =
                    small_int(heap.word(string, SECOND)?).and_then(|offset| usize::try_from(offset).ok());
                let from = from.saturating_add(offset.ok_or(Reason::Implausible)?);
                rest.push((heap.object(string, FIRST)?, from, count));
                continue;
            }
            kind::THIN => {
                rest.push((heap.object(string, FIRST)?, from, count));
                continue;
            }
            _ => return Err(Reason::Unsupported),
        }
        if count > room {
            return Ok(false);
        }
        done += count;
    }
    Ok(true)
}

/// Number of characters of a piece.
const PIECE: usize = 1 << 14;

/// Reads `count` characters in pieces.
fn read_pieces(
    heap: &Heap<'_>,
    at: u64,
    kind: u16,
    from: usize,
    count: usize,
    each: &mut dyn FnMut(&[u16]),
) -> Result<(), Reason> {
    let is_narrow = kind & kind::ONE_BYTE != 0;
    let width = if is_narrow { 1 } else { 2 };
    let end = from.saturating_add(count);
    for from in (from..end).step_by(PIECE) {
        let size = (end - from).min(PIECE) * width;
        let at = at.wrapping_add((from as u64).wrapping_mul(width as u64));
        let bytes = heap.memory.bytes(at, size as u64, size)?;
        let units: Vec<u16> = match is_narrow {
            true => bytes.iter().map(|&byte| u16::from(byte)).collect(),
            false => bytes.as_chunks().0.iter().map(|&pair| u16::from_le_bytes(pair)).collect(),
        };
        each(&units);
    }
    Ok(())
}
