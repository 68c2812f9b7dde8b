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
    #[inline]
    pub(crate) fn entry(&self, offset: usize) -> Option<(Entry<'_>, usize)> {
        let mut bytes = Bytes::at(&self.data, offset)?;
        let length = match bytes.u32()? {
            0 => {
                return Some((
                    Entry { offset, kind: Kind::Empty, body: Bytes(&[]), body_offset: offset + 4 },
                    offset + 4,
                ));
            }
            u32::MAX => return self.wide_entry(offset),
            length => length,
        };
        let mut body = Bytes(bytes.take(length.into())?);
        let id = body.u32()?;
        let kind = self.kind(id.into(), u32::MAX.into(), offset + 4)?;
        Some((Entry { offset, kind, body, body_offset: offset + 8 }, offset + 4 + length as usize))
    }

    /// An entry whose length and kind take eight bytes each, behind a mark that says so.
    #[cold]
    fn wide_entry(&self, offset: usize) -> Option<(Entry<'_>, usize)> {
        let mut bytes = Bytes::at(&self.data, offset + 4)?;
        let length = bytes.u64()?;
        let mut body = Bytes(bytes.take(length)?);
        let next = self.data.len() - bytes.len();
        let id = body.u64()?;
        let kind = self.kind(id, u64::MAX, offset + 12)?;
        Some((Entry { offset, kind, body, body_offset: offset + 20 }, next))
    }

    /// What an entry with this `id` at `id_offset` is; `mark` marks a CIE in `.debug_frame`.
    #[inline]
    fn kind(&self, id: u64, mark: u64, id_offset: usize) -> Option<Kind> {
        let offset = usize::try_from(id).ok();
        match self.format {
            Format::DebugFrame if id == mark => Some(Kind::Cie),
            Format::DebugFrame => offset.map(Kind::Fde),
            _ if id == 0 => Some(Kind::Cie),
            _ => id_offset.checked_sub(offset?).map(Kind::Fde),
        }
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

    #[inline]
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
