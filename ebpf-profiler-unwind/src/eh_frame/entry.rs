//! From a section's bytes to its entries.

use crate::bytes::Bytes;

/// A section of call frame information.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Its bytes.
    pub(crate) data: Vec<u8>,
    /// The virtual address of its first byte.
    pub(crate) address: u64,
    /// Which of the two ways of framing it has.
    pub(crate) format: Format,
}

/// The ways of framing entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `.eh_frame`: an FDE names its CIE by the distance back to it.
    EhFrame,
    /// `.eh_frame` of which only the beginning is known: it ends at the first empty entry.
    EhFrameUntilZero,
    /// `.debug_frame`: an FDE names its CIE by its offset.
    DebugFrame,
}

/// One entry of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Where it begins in the section.
    pub(crate) offset: usize,
    /// What it is.
    pub(crate) kind: Kind,
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

impl Section {
    /// The entry at `offset`, and where the next one begins.
    pub(crate) fn entry(&self, offset: usize) -> Option<(Entry<'_>, usize)> {
        let mut bytes = Bytes::at(&self.data, offset)?;
        let (length, wide) = match bytes.u32()? {
            u32::MAX => (bytes.u64()?, true),
            length => (length.into(), false),
        };
        let body_offset = self.data.len() - bytes.len();
        let mut body = Bytes(bytes.take(length)?);
        let next = self.data.len() - bytes.len();
        if length == 0 {
            return Some((Entry { offset, kind: Kind::Empty, body, body_offset }, next));
        }
        let id = if wide { body.u64()? } else { body.u32()?.into() };
        let kind = self.kind(id, wide, body_offset)?;
        let body_offset = next - body.len();
        Some((Entry { offset, kind, body, body_offset }, next))
    }

    fn kind(&self, id: u64, wide: bool, id_offset: usize) -> Option<Kind> {
        let is_cie = match (self.format, wide) {
            (Format::DebugFrame, false) => id == u32::MAX.into(),
            (Format::DebugFrame, true) => id == u64::MAX,
            _ => id == 0,
        };
        if is_cie {
            return Some(Kind::Cie);
        }
        let id = usize::try_from(id).ok()?;
        Some(Kind::Fde(if self.format == Format::DebugFrame { id } else { id_offset.checked_sub(id)? }))
    }

    /// All entries, in the order of the section, up to the first whose length makes no sense.
    pub(crate) fn entries(&self) -> Entries<'_> {
        Entries { section: self, next: 0, truncated: false }
    }
}

/// See [`Section::entries`].
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a> {
    section: &'a Section,
    next: usize,
    truncated: bool,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        while self.next < self.section.data.len() {
            let Some((entry, next)) = self.section.entry(self.next) else {
                self.truncated = true;
                self.next = usize::MAX;
                break;
            };
            self.next = next;
            match entry.kind {
                Kind::Empty if self.section.format == Format::EhFrameUntilZero => self.next = usize::MAX,
                // Objects linked one after the other may each bring an end of their own.
                Kind::Empty => {}
                _ => return Some(entry),
            }
        }
        None
    }
}

impl Entries<'_> {
    /// Whether the walk ended at an entry that makes no sense.
    pub(crate) fn is_truncated(&self) -> bool {
        self.truncated
    }
}
