//! ELF files as they lie in the memory of a dump.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use ebpf_profiler_core::elf::ReadAt;

use super::mapped::{MappedFile, Piece};
use super::memory::Contents;

/// What a dump holds of a file, read as if it were the file.
///
/// Of mapped files that is what was mapped, in general without sections and symbols; of the vDSO it is all.
#[derive(Clone, Debug)]
pub struct Image {
    contents: Arc<Contents>,
    /// By their offsets; of several pieces of one offset only the first, as later ones may have been written to.
    pieces: Arc<[Piece]>,
    /// Whether its section headers are in memory: hardly any file's are but the kernel's own library's.
    sections: bool,
}

/// Where the ELF header speaks of section headers: where they are; how many, and which has their names.
const SECTIONS: [Range<u64>; 2] = [40..48, 60..64];

impl Image {
    /// Of a mapped file.
    pub(super) fn of_file(contents: &Arc<Contents>, file: &MappedFile) -> Image {
        let mut pieces = file.pieces.clone();
        pieces.sort_by_key(|piece| piece.offset);
        pieces.dedup_by_key(|piece| piece.offset);
        Image { contents: contents.clone(), pieces: pieces.into(), sections: false }
    }

    /// Of the library that the kernel lends to every process.
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

    /// Where byte `offset` is in memory, and how many bytes follow each other from there on.
    fn find(&self, offset: u64) -> Option<(u64, u64)> {
        let next = self.pieces.partition_point(|piece| piece.offset <= offset);
        let piece = self.pieces.get(next.checked_sub(1)?)?;
        let address = piece.range.start.checked_add(offset - piece.offset)?;
        Some((address, piece.range.end.checked_sub(address).filter(|&size| size > 0)?))
    }

    /// Lets the header speak of no sections.
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
