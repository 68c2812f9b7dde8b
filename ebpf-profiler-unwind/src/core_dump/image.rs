//! ELF files in the memory of a dump.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use ebpf_profiler_core::elf::ReadAt;

use super::mapped::{MappedFile, Piece};
use super::memory::Contents;

/// The contents of a file in a dump, read by file offset.
///
/// Of mapped files these are the mapped parts, usually without sections and symbols; of the vDSO it
/// is the whole file.
#[derive(Clone, Debug)]
pub struct Image {
    contents: Arc<Contents>,
    /// Pieces by offset. Of several with one offset only the first is used, as later ones may have
    /// been written to.
    pieces: Arc<[Piece]>,
    /// `true` if the section headers are in memory, as in the vDSO.
    sections: bool,
}

/// Byte ranges of the ELF header about section headers: `e_shoff`; `e_shnum` and `e_shstrndx`.
const SECTIONS: [Range<u64>; 2] = [40..48, 60..64];

impl Image {
    /// Creates the image of a mapped file.
    pub(super) fn of_file(contents: &Arc<Contents>, file: &MappedFile) -> Image {
        let mut pieces = file.pieces.clone();
        pieces.sort_by_key(|piece| piece.offset);
        pieces.dedup_by_key(|piece| piece.offset);
        Image { contents: contents.clone(), pieces: pieces.into(), sections: false }
    }

    /// Creates the image of the vDSO.
    pub(super) fn of_vdso(contents: &Arc<Contents>, range: Range<u64>) -> Image {
        let pieces = Arc::new([Piece { range, offset: 0 }]);
        Image { contents: contents.clone(), pieces, sections: true }
    }

    /// Fills `buffer` with the bytes of the file from `offset` on.
    pub(super) fn fill(&self, offset: u64, buffer: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < buffer.len() {
            let (address, size) = self.find(offset.checked_add(done as u64)?)?;
            let size = size.min((buffer.len() - done) as u64) as usize;
            self.contents.read(address, &mut buffer[done..done + size])?;
            done += size;
        }
        Some(())
    }

    /// Returns the address of byte `offset`, and the number of contiguous bytes from there on.
    fn find(&self, offset: u64) -> Option<(u64, u64)> {
        let next = self.pieces.partition_point(|piece| piece.offset <= offset);
        let piece = self.pieces.get(next.checked_sub(1)?)?;
        let address = piece.range.start.checked_add(offset - piece.offset)?;
        Some((address, piece.range.end.checked_sub(address).filter(|&size| size > 0)?))
    }

    /// Clears the fields of section headers.
    fn hide_sections(&self, offset: u64, buffer: &mut [u8]) {
        for byte in SECTIONS.into_iter().flatten() {
            let place = byte.checked_sub(offset).and_then(|at| buffer.get_mut(at as usize));
            place.into_iter().for_each(|place| *place = 0);
        }
    }
}

impl ReadAt for Image {
    fn size(&self) -> io::Result<u64> {
        let end = |piece: &Piece| piece.offset.saturating_add(piece.range.end - piece.range.start);
        Ok(self.pieces.iter().map(end).max().unwrap_or(0))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.fill(offset, buffer).ok_or(io::ErrorKind::UnexpectedEof)?;
        if !self.sections {
            self.hide_sections(offset, buffer);
        }
        Ok(())
    }
}
