//! The contents of a section, held or read when asked for.

use std::borrow::Cow;

use crate::elf::{Elf, ElfError, Section, section_type};

/// The contents of a section.
pub(super) enum Data<'e> {
    /// In memory: inflated, or none.
    Held(&'e [u8]),
    /// In the file.
    File {
        /// The file.
        elf: &'e Elf,
        /// Where they begin.
        offset: u64,
        /// How many bytes.
        size: u64,
    },
}

impl<'e> Data<'e> {
    /// The bytes of a section as they are in the file.
    pub(super) fn of(elf: &'e Elf, section: &Section) -> Data<'e> {
        if section.kind == section_type::SHT_NOBITS {
            return Data::Held(&[]);
        }
        // A file that was cut holds the beginning.
        let size = section.size.min(elf.size().saturating_sub(section.offset));
        Data::File { elf, offset: section.offset, size }
    }

    /// The same contents once more.
    #[cfg(feature = "symbolize")]
    pub(super) fn view(&self) -> Data<'_> {
        match self {
            Data::Held(bytes) => Data::Held(bytes),
            Data::File { elf, offset, size } => Data::File { elf, offset: *offset, size: *size },
        }
    }

    pub(super) fn size(&self) -> u64 {
        match self {
            Data::Held(bytes) => bytes.len() as u64,
            Data::File { size, .. } => *size,
        }
    }

    /// `size` bytes from `at` on.
    pub(super) fn range(&self, at: u64, size: u64) -> Result<Cow<'_, [u8]>, ElfError> {
        if at.checked_add(size).is_none_or(|end| end > self.size()) {
            return Err(ElfError::OutOfFile { offset: at, size });
        }
        match self {
            Data::Held(bytes) => Ok(bytes[at as usize..(at + size) as usize].into()),
            Data::File { elf, offset, .. } => Ok(elf.bytes(offset + at, size)?.into()),
        }
    }
}
