//! From a section's bytes to its entries.

use crate::bytes::Bytes;

use super::section::Format;

/// One entry of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// What it is.
    pub(crate) kind: Kind,
    /// Which way of framing it has.
    pub(crate) format: Format,
    /// All of it.
    pub(crate) bytes: &'a [u8],
    /// What follows its length and kind.
    pub(crate) body: Bytes<'a>,
    /// Where its body begins in the section.
    pub(crate) body_offset: usize,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What several functions have in common.
    Cie,
    /// One function, described on top of the CIE at this offset.
    Fde(usize),
    /// Nothing: padding, or the end.
    Empty,
}

/// Bytes of the entry that `bytes` begin with, its length included.
#[inline(always)]
pub(super) fn size(bytes: &[u8]) -> Option<usize> {
    let mut rest = Bytes(bytes);
    match rest.u32()? {
        u32::MAX => usize::try_from(rest.u64()?).ok()?.checked_add(12),
        length => Some(length as usize + 4),
    }
}

impl<'a> Entry<'a> {
    /// The entry at `offset` of its section, whose bytes these are.
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

/// What an entry is whose length and kind take eight bytes each, behind a mark that says so.
#[cold]
fn wide_kind(bytes: &[u8], offset: usize, format: Format) -> Option<Kind> {
    kind(format, Bytes::at(bytes, 12)?.u64()?, u64::MAX, offset + 12)
}

/// What an entry with this `id` at `id_offset` is; `mark` marks a CIE in `.debug_frame`.
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
