//! Parser of line tables, which have had three formats.
//!
//! ```text
//!   to 3.9    co_lnotab      {bytes of code u8, lines}…                lines: u8 in 2.7, i8 from 3.6 on
//!   3.10      co_linetable   {bytes of code u8, lines i8}…             -128: no line
//!   3.11 on   co_linetable   {1cccclll, more}…                        c: kind, l + 1: words of code
//!                            more: bytes below 0x80, by kind: lines and columns
//! ```

use ebpf_profiler_core::language::Lines;

use super::version::Version;

/// Format of a line table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Unsigned,
    Signed,
    Ranges,
    Locations,
}

/// Kind of an entry for code without a line, from 3.11 on.
const NO_LINE: u8 = 15;

/// Decodes the line table of a code object, for positions as frames hold them.
///
/// `first` is the first line of the function, `instructions` the offset of its bytecode in the
/// object.
pub(super) fn lines(version: Version, table: &[u8], first: u32, instructions: u32) -> Lines {
    let form = match version {
        Version(2, _) => Form::Unsigned,
        Version(3, ..=9) => Form::Signed,
        Version(3, 10) => Form::Ranges,
        _ => Form::Locations,
    };
    let mut lines = Lines::default();
    lines.push(0, first);
    match form {
        Form::Unsigned | Form::Signed => increments(&mut lines, table, first, form),
        Form::Ranges => ranges(&mut lines, table, first),
        Form::Locations => locations(&mut lines, table, first, instructions),
    }
    if form != Form::Locations {
        // Position -1: the function hasn't begun.
        lines.push(u32::MAX, first);
    }
    lines
}

/// Returns `true` if no entry of the table has a line.
pub(super) fn is_without(version: Version, table: &[u8]) -> bool {
    let mut heads = table.iter().filter(|&&byte| byte & 0x80 != 0);
    version >= Version(3, 11) && heads.all(|head| head >> 3 & 15 == NO_LINE)
}

fn increments(lines: &mut Lines, table: &[u8], first: u32, form: Form) {
    let (mut position, mut line) = (0, first);
    for &[code, by] in table.as_chunks::<2>().0 {
        position += u32::from(code);
        line = match form {
            Form::Unsigned => line.wrapping_add(by.into()),
            _ => line.wrapping_add_signed((by as i8).into()),
        };
        lines.push(position, line);
    }
}

fn ranges(lines: &mut Lines, table: &[u8], first: u32) {
    const NONE: i8 = -128;
    let (mut position, mut line) = (0, first);
    for &[code, by] in table.as_chunks::<2>().0 {
        let by = by as i8;
        if by != NONE {
            line = line.wrapping_add_signed(by.into());
        }
        if code > 0 {
            // Positions count words of two bytes.
            lines.push(position / 2, if by == NONE { 0 } else { line });
        }
        position += u32::from(code);
    }
}

fn locations(lines: &mut Lines, table: &[u8], first: u32, instructions: u32) {
    let (mut position, mut line) = (instructions, first);
    let mut rest = table;
    while let Some((&head, more)) = rest.split_first() {
        let len = more.iter().position(|&byte| byte & 0x80 != 0).unwrap_or(more.len());
        let kind = head >> 3 & 15;
        let by = match kind {
            // The line as a varint.
            13 | 14 => signed(&more[..len]),
            10..=12 => i32::from(kind - 10),
            _ => 0,
        };
        line = line.wrapping_add_signed(by);
        lines.push(position, if kind == NO_LINE { 0 } else { line });
        position = position.saturating_add(2 * (u32::from(head & 7) + 1));
        rest = &more[len..];
    }
    // Positions behind the end are in a copy of the bytecode, whose address is unknown.
    lines.push(position, 0);
}

/// Decodes a varint of six bits per byte, lowest first, whose lowest bit is the sign.
fn signed(bytes: &[u8]) -> i32 {
    let mut number: u32 = 0;
    for (index, &byte) in bytes.iter().take(6).enumerate() {
        number |= u32::from(byte & 0x3f).wrapping_shl(6 * index as u32);
        if byte & 0x40 == 0 {
            break;
        }
    }
    let magnitude = (number >> 1) as i32;
    if number & 1 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests;
