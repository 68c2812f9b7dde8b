//! The contents of a section, in memory or read on demand.

use std::borrow::Cow;

use object::pod;

use crate::elf::{Elf, ElfError, Section, section_type};

/// The contents of a section.
pub(super) enum Data<'e> {
    /// In memory: inflated or empty.
    Held(&'e [u8]),
    /// In the file.
    File {
        /// The file.
        elf: &'e Elf,
        /// Offset of the contents in the file.
        offset: u64,
        /// Size in bytes.
        size: u64,
    },
}

impl<'e> Data<'e> {
    /// Returns the contents of a section as stored in the file.
    pub(super) fn of(elf: &'e Elf, section: &Section) -> Data<'e> {
        if section.kind == section_type::SHT_NOBITS {
            return Data::Held(&[]);
        }
        // Of a truncated file, the part that is left.
        let size = section.size.min(elf.size().saturating_sub(section.offset));
        Data::File { elf, offset: section.offset, size }
    }

    /// Borrows the same contents.
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

    /// Reads `size` bytes from `at` on.
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

/// Calls `use_entry` for every entry of a section, reading it in pieces.
pub(super) fn each<T: pod::Pod>(
    elf: &Elf,
    section: &Section,
    mut use_entry: impl FnMut(&T),
) -> Result<(), ElfError> {
    const AT_ONCE: usize = 2048;
    // Larger than any real table; a sparse file can claim any size.
    const MAX: u64 = 256 << 20;
    let entry = size_of::<T>() as u64;
    let data = Data::of(elf, section);
    let mut buffer = vec![0; AT_ONCE * size_of::<T>()];
    let mut at = 0;
    let end = data.size().min(MAX);
    while at + entry <= end {
        let size = (end - at).min(buffer.len() as u64) / entry * entry;
        let piece = &mut buffer[..size as usize];
        elf.fill(section.offset + at, piece)?;
        pod::slice_from_all_bytes(piece).unwrap_or_default().iter().for_each(&mut use_entry);
        at += size;
    }
    Ok(())
}
