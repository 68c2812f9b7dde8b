//! Decodes tables of positions.
//!
//! ```text
//!   number          groups of seven bits, low ones first; the highest bit of a byte says that another follows
//!   signed number   zigzag: 0, -1, 1, -2, …
//!
//!   entry of a position table      distance from the entry before, or -1 minus it for an expression: signed; from 14 on
//!                                  unsigned and shifted by 2, above two flags. The first is that from -1, before 9 from 0.
//!                                  difference of the position: signed, 64 bits
//!   position                       external 1 bit, offset in the script plus 1 in 30, inlining plus 1 in 16
//!   table of bytecode offsets      size of the prologue, then of the code of each bytecode
//! ```

use super::version::Version;

/// A position in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Offset in the script, in UTF-16 units.
    pub(super) offset: u32,
    /// Index of the inlined call that it lies in.
    pub(super) inlining: Option<u16>,
}

impl Position {
    /// Decodes a position; `None` for one without an offset in a script.
    pub(super) fn from_bits(bits: u64) -> Option<Position> {
        let offset = (bits >> 1 & 0x3fff_ffff) as u32;
        let inlining = (bits >> 31 & 0xffff) as u16;
        if bits & 1 != 0 {
            return None;
        }
        Some(Position { offset: offset.checked_sub(1)?, inlining: inlining.checked_sub(1) })
    }
}

/// Decodes a position table: offsets in the code, with the positions from there on.
pub(super) fn decode(version: Version, table: &[u8]) -> impl Iterator<Item = (u32, Option<Position>)> + '_ {
    let flags = if version < Version(14, 0) { 1 } else { 2 };
    let mut rest = table;
    let first = if version < Version(9, 0) { 0 } else { u32::MAX };
    let (mut code, mut bits) = (first, 0u64);
    std::iter::from_fn(move || {
        let distance = unsigned(&mut rest)? >> flags;
        let difference = signed(&mut rest)?;
        code = code.wrapping_add(distance as u32);
        bits = bits.wrapping_add(difference as u64);
        // The position of the function itself is at -1.
        Some((if code == u32::MAX { 0 } else { code }, Position::from_bits(bits)))
    })
}

/// Decodes the table of bytecode offsets of baseline code: for each bytecode the offset of its
/// code, and its own offset. The prologue has bytecode offset 0.
pub(super) fn decode_baseline(table: &[u8], bytecode: &[u8], sizes: &[u8]) -> Vec<(u32, u32)> {
    let mut rest = table;
    let mut entries = vec![(0, 0)];
    let (mut code, mut at) = (0u32, 0);
    while let Some(size) = unsigned(&mut rest) {
        code = code.wrapping_add(size as u32);
        let Some(length) = length(bytecode, at, sizes) else { break };
        entries.push((code, at as u32));
        at += length;
    }
    entries
}

/// Returns the length of the instruction at an offset of the bytecode, with its prefix.
fn length(bytecode: &[u8], at: usize, sizes: &[u8]) -> Option<usize> {
    let count = sizes.len() / 3;
    let first = usize::from(*bytecode.get(at)?);
    // Wide, ExtraWide, and the same for breakpoints.
    let (prefix, scale, number) = match first {
        0..=3 => (1, 1 + (first & 1), usize::from(*bytecode.get(at + 1)?)),
        _ => (0, 0, first),
    };
    let size = sizes.get(scale * count + number).filter(|_| number < count)?;
    Some(prefix + usize::from((*size).max(1)))
}

fn signed(rest: &mut &[u8]) -> Option<i64> {
    let bits = unsigned(rest)?;
    Some((bits >> 1) as i64 ^ -((bits & 1) as i64))
}

fn unsigned(rest: &mut &[u8]) -> Option<u64> {
    let (mut bits, mut shift) = (0u64, 0);
    loop {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        bits |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(bits);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: Version = Version(13, 6);

    #[test]
    fn decodes_entries_of_14() {
        // 2 and 12 bytes on, with both flags.
        let table = [2 << 2 | 1, 10 << 1, 12 << 2 | 3, 0];
        let offsets: Vec<_> = decode(Version(14, 1), &table).map(|(offset, _)| offset).collect();
        assert_eq!(offsets, [1, 13]);
    }

    #[test]
    fn entries_begin_before_the_code_from_9_on() {
        let first = |version| decode(version, &[4 << 1, 0]).next().map(|(offset, _)| offset);
        assert_eq!((first(Version(8, 4)), first(Version(9, 4))), (Some(4), Some(3)));
    }

    #[test]
    fn decodes_entries() {
        // 2 bytes on, statement at offset 4; 3 bytes on, expression 5 before it, in the first inlined call.
        let difference = (1i64 << 31) - 10;
        let mut table = vec![4, 10 << 1];
        table.push(7);
        let mut bits = (difference << 1) as u64;
        while bits > 0x7f {
            table.push(bits as u8 | 0x80);
            bits >>= 7;
        }
        table.push(bits as u8);
        let found: Vec<_> = decode(VERSION, &table).collect();
        let position = |offset, inlining| Some(Position { offset, inlining });
        assert_eq!(found[0], (1, position(4, None)));
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].0, 4);
    }

    #[test]
    fn follows_bytecodes_and_their_prefixes() {
        // Four prefixes, then an instruction of 2, 3 or 5 bytes, and one of 1.
        let sizes = [1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 5, 1];
        let bytecode = [4, 0, 5, 0, 4, 0, 0, 1, 4, 0, 0, 0, 0, 5];
        let table = [10, 20, 30, 40, 50, 60];
        let found = decode_baseline(&table, &bytecode, &sizes);
        assert_eq!(found, [(0, 0), (10, 0), (30, 2), (60, 3), (100, 7), (150, 13)]);
    }

    #[test]
    fn truncated_tables_end() {
        assert_eq!(decode(VERSION, &[0x80]).count(), 0);
        assert_eq!(decode(VERSION, &[0xff; 40]).count(), 0);
        assert_eq!(decode_baseline(&[1, 1], &[], &[]), [(0, 0)]);
    }
}
