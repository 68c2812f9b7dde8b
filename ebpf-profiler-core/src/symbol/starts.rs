//! Starts of functions without a symbol, from the search table of unwind data (`.eh_frame_hdr`).
//!
//! ```text
//!   .eh_frame_hdr   function and FDE for each, sorted: see EhFrameHdr
//!   FDE             length: u32, back to its CIE: u32, function: i32 from here, size: u32, …
//! ```
//!
//! This is the form that all linkers write. The description has to confirm the table's entry: a
//! file can claim anything, and undescribed code may follow the end of a function.

use crate::elf::{EhFrameHdr, Elf};

/// The search table of a file.
pub(super) struct Starts<'e> {
    elf: &'e Elf,
    header: EhFrameHdr,
}

impl<'e> Starts<'e> {
    /// Opens the search table of `elf`, if it has one of the usual form.
    pub(super) fn of(elf: &'e Elf) -> Option<Starts<'e>> {
        EhFrameHdr::of(elf).filter(|header| header.count() > 0).map(|header| Starts { elf, header })
    }

    /// Returns the start of the function that contains `address`.
    pub(super) fn find(&self, address: u64) -> Option<u64> {
        let (start, fde) = self.header.find(self.elf, address)?;
        let mut bytes = [0; 16];
        self.elf.read(fde, &mut bytes).ok()?;
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|&word| u32::from_le_bytes(word));
        let described = fde.checked_add(8)?.wrapping_add_signed(i64::from(word(8)? as i32));
        (described == start && address - start < u64::from(word(12)?)).then_some(start)
    }
}
