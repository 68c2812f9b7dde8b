//! Line tables, in the three forms that they have had.
//!
//! ```text
//!   to 3.9    co_lnotab      {bytes of code u8, lines}…                lines: u8 in 2.7, i8 from 3.6 on
//!   3.10      co_linetable   {bytes of code u8, lines i8}…             -128 lines: none
//!   3.11 on   co_linetable   {1cccclll, more}…                        c: kind, l + 1: words of code
//!                            more: bytes below 0x80, by kind: lines and columns
//! ```

use ebpf_profiler_core::language::Lines;

use super::version::Version;

/// Which form a version has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Unsigned,
    Signed,
    Ranges,
    Locations,
}

/// Of an entry from 3.11 on: this code has no line.
const NO_LINE: u8 = 15;

/// The lines of a code object: of its positions as frames have them.
///
/// `first` is the line on which it begins, `instructions` where in the object its code is.
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
        // -1: it hasn't begun.
        lines.push(u32::MAX, first);
    }
    lines
}

/// Whether a table says of all its code that it has no line.
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
            // Frames count words of two bytes.
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
            // The line as a number of its own.
            13 | 14 => signed(&more[..len]),
            10..=12 => i32::from(kind - 10),
            _ => 0,
        };
        line = line.wrapping_add_signed(by);
        lines.push(position, if kind == NO_LINE { 0 } else { line });
        position = position.saturating_add(2 * (u32::from(head & 7) + 1));
        rest = &more[len..];
    }
    // Behind the end: a copy of the code, of which the place isn't known.
    lines.push(position, 0);
}

/// A number of six bits a byte, the lowest first; its lowest bit is the sign.
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
