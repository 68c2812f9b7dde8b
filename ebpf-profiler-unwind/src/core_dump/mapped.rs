//! Mapped files.
//!
//! ```text
//!   NT_FILE = count: u64   page size: u64   {start, end, offset in pages}: u64 × 3 × count   path, zero byte, ...
//! ```

use std::ops::Range;

use hashbrown::HashMap;

use crate::bytes::Bytes;

/// A file that was mapped, in one or more pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MappedFile {
    /// Path as the process saw it.
    pub path: Box<str>,
    /// Its pieces, by address.
    pub pieces: Vec<Piece>,
}

/// A piece of a file in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Addresses in the process.
    pub range: Range<u64>,
    /// Offset in the mapped file.
    pub offset: u64,
}

impl MappedFile {
    /// Returns the path without the suffix that the kernel adds for deleted files.
    pub fn original_path(&self) -> &str {
        self.path.strip_suffix(" (deleted)").unwrap_or(&self.path)
    }
}

/// Parses the list. Returns `None` if it is inconsistent. Impossible pieces are skipped.
pub(super) fn parse(description: &[u8]) -> Option<Vec<MappedFile>> {
    let mut bytes = Bytes(description);
    let (count, page) = (bytes.u64()?, bytes.u64()?);
    let size = count.checked_mul(24)?;
    let mut numbers = Bytes(bytes.take(size)?);
    let mut files = Files::default();
    for _ in 0..count {
        let (start, end, pages) = (numbers.u64()?, numbers.u64()?, numbers.u64()?);
        let path = bytes.string()?;
        if let Some(offset) = pages.checked_mul(page).filter(|_| start < end) {
            files.add(path, Piece { range: start..end, offset });
        }
    }
    Some(files.list)
}

/// Groups pieces into files by path.
///
/// A path may name several files in a row, each of which begins with offset 0.
#[derive(Default)]
struct Files<'a> {
    list: Vec<MappedFile>,
    known: HashMap<&'a [u8], usize>,
}

impl<'a> Files<'a> {
    fn add(&mut self, path: &'a [u8], piece: Piece) {
        let known = self.known.get(path).filter(|_| piece.offset != 0);
        let number = known.copied().unwrap_or_else(|| {
            let path = String::from_utf8_lossy(path).into();
            self.list.push(MappedFile { path, pieces: Vec::new() });
            self.list.len() - 1
        });
        self.known.insert(path, number);
        self.list[number].pieces.push(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(entries: &[(u64, u64, u64, &str)]) -> Vec<u8> {
        let numbers = entries.iter().flat_map(|&(start, end, pages, _)| [start, end, pages]);
        let head = [entries.len() as u64, 4096];
        let mut bytes: Vec<u8> = head.into_iter().chain(numbers).flat_map(u64::to_le_bytes).collect();
        entries.iter().for_each(|(.., path)| bytes.extend([path.as_bytes(), b"\0"].concat()));
        bytes
    }

    #[test]
    fn pieces_of_one_file_come_together() {
        let note = note(&[
            (0x1000, 0x2000, 0, "/bin/a"),
            (0x2000, 0x4000, 1, "/bin/a"),
            (0x4000, 0x4000, 1, "/bin/empty"),
            (0x9000, 0xa000, 0, "/bin/a (deleted)"),
            (0xb000, 0xc000, 0, "/bin/a"),
        ]);
        let files = parse(&note).unwrap();
        let summary: Vec<_> = files.iter().map(|file| (file.original_path(), file.pieces.len())).collect();
        assert_eq!(summary, [("/bin/a", 2), ("/bin/a", 1), ("/bin/a", 1)]);
        assert_eq!(files[0].pieces[1], Piece { range: 0x2000..0x4000, offset: 0x1000 });
    }

    #[test]
    fn counts_are_held_against_what_there_is() {
        let mut lying = note(&[(0x1000, 0x2000, 0, "/bin/a")]);
        lying[0] = 2;
        assert_eq!(parse(&lying), None);
        lying[..8].fill(0xff);
        assert_eq!(parse(&lying), None);
        assert_eq!(parse(&[]), None);
    }
}
