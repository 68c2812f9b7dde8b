//! Splits a section into entries.

use crate::bytes::Bytes;

use super::section::Format;

/// An entry of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Kind of the entry.
    pub(crate) kind: Kind,
    /// Framing of the section.
    pub(crate) format: Format,
    /// The whole entry.
    pub(crate) bytes: &'a [u8],
    /// The part behind length and kind.
    pub(crate) body: Bytes<'a>,
    /// Offset of the body in the section.
    pub(crate) body_offset: usize,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Common information entry.
    Cie,
    /// Frame description entry of one function, with the offset of its CIE.
    Fde(usize),
    /// Padding or terminator.
    Empty,
}

/// Returns the size of the first entry in `bytes`, including its length field.
#[inline(always)]
pub(super) fn size(bytes: &[u8]) -> Option<usize> {
    let mut rest = Bytes(bytes);
    match rest.u32()? {
        u32::MAX => usize::try_from(rest.u64()?).ok()?.checked_add(12),
        length => Some(length as usize + 4),
    }
}

impl<'a> Entry<'a> {
    /// Parses the entry at `offset` of its section, which consists of `bytes`.
    #[inline(always)]
    pub(super) fn parse(bytes: &'a [u8], offset: usize, format: Format) -> Option<Entry<'a>> {
        let mut body = Bytes(bytes);
        let (kind, size) = match body.u32()? {
            0 => (Kind::Empty, 4),
            u32::MAX => (wide_kind(bytes, offset, format)?, 20),
            _ => (kind(format, body.u32()?.into(), u32::MAX.into(), offset + 4)?, 8),
        };
        Some(Entry { kind, format, bytes, body: Bytes::at(bytes, size)?, body_offset: offset + size })
    }
}

/// Returns the kind of an entry in the 64-bit format: length and kind have eight bytes each.
#[cold]
fn wide_kind(bytes: &[u8], offset: usize, format: Format) -> Option<Kind> {
    kind(format, Bytes::at(bytes, 12)?.u64()?, u64::MAX, offset + 12)
}

/// Returns the kind of an entry with this `id` at `id_offset`; `mark` marks a CIE in
/// `.debug_frame`.
#[inline]
fn kind(format: Format, id: u64, mark: u64, id_offset: usize) -> Option<Kind> {
    let offset = usize::try_from(id).ok();
    match format {
        Format::DebugFrame if id == mark => Some(Kind::Cie),
        Format::DebugFrame => offset.map(Kind::Fde),
        _ if id == 0 => Some(Kind::Cie),
        _ => id_offset.checked_sub(offset?).map(Kind::Fde),
    }
}
