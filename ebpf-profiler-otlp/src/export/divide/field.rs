//! Fields of an encoded message.

/// A field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'m> {
    pub(super) number: u64,
    pub(super) kind: Kind,
    /// With its tag.
    pub(super) all: &'m [u8],
    /// Without tag and length.
    pub(super) content: &'m [u8],
}

/// The wire type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Varint(u64),
    Bytes,
    Fixed,
}

/// Returns the fields of a message; a malformed one is `None` and the last.
pub(super) fn fields(mut rest: &[u8]) -> impl Iterator<Item = Option<Field<'_>>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = next(&mut rest);
        if field.is_none() {
            rest = &[];
        }
        Some(field)
    })
}

fn next<'m>(rest: &mut &'m [u8]) -> Option<Field<'m>> {
    let start = *rest;
    let tag = varint(rest)?;
    let (kind, content) = match tag & 7 {
        0 => (Kind::Varint(varint(rest)?), &[][..]),
        1 => (Kind::Fixed, take(rest, 8)?),
        2 => {
            let len = varint(rest)?;
            (Kind::Bytes, take(rest, len)?)
        }
        5 => (Kind::Fixed, take(rest, 4)?),
        _ => return None,
    };
    Some(Field { number: tag >> 3, kind, all: &start[..start.len() - rest.len()], content })
}

/// Returns the numbers of a packed field; a malformed one is `None` and the last.
pub(super) fn varints(mut rest: &[u8]) -> impl Iterator<Item = Option<u64>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let number = varint(&mut rest);
        if number.is_none() {
            rest = &[];
        }
        Some(number)
    })
}

fn take<'m>(rest: &mut &'m [u8], len: u64) -> Option<&'m [u8]> {
    let (content, behind) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = behind;
    Some(content)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

pub(super) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number; omitted if zero.
pub(super) fn put_number(field: u64, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        put_varint(field << 3, out);
        put_varint(value, out);
    }
}

pub(super) fn put_bytes(field: u64, content: &[u8], out: &mut Vec<u8>) {
    put_varint(field << 3 | 2, out);
    put_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}
