//! The sections of debug information, read in pieces and inflated if compressed.

use std::cell::OnceCell;

use flate2::{Decompress, FlushDecompress, Status};
use gimli::{EndianSlice, LittleEndian};
use object::LittleEndian as LE;
use object::elf::{CompressionHeader64, ELFCOMPRESS_ZLIB};
use object::pod;

use crate::elf::{COMPRESSED, Elf, Section};
use crate::symbol::data::Data;
use crate::symbol::window::{TEXTS, Window};

/// The reader type for gimli.
pub(super) type Bytes<'u> = EndianSlice<'u, LittleEndian>;

/// A file with debug information.
#[derive(Clone, Copy)]
pub(in crate::symbol) struct File<'e> {
    pub(in crate::symbol) elf: &'e Elf,
    pub(in crate::symbol) inflated: &'e Inflated,
}

/// The inflated sections of a file; `None` for those that cannot be inflated. Kept while the file
/// is open, because a section is read for the index and again for each batch of addresses.
#[derive(Default)]
pub(in crate::symbol) struct Inflated([OnceCell<Option<Vec<u8>>>; NAMES.len()]);

/// The sections used.
const NAMES: [&str; 10] =
    ["info", "abbrev", "line", "aranges", "addr", "str", "line_str", "str_offsets", "ranges", "rnglists"];

/// The sections of one file.
pub(super) struct Sections<'e> {
    pub(super) info: Data<'e>,
    pub(super) abbreviations: Data<'e>,
    pub(super) line: Data<'e>,
    pub(super) aranges: Data<'e>,
    /// All of `.debug_addr`, which range lists index at random.
    pub(super) addresses: Vec<u8>,
    pub(super) texts: Window<'e>,
    pub(super) line_texts: Window<'e>,
    pub(super) text_offsets: Window<'e>,
    /// `.debug_ranges`, up to version 4.
    pub(super) ranges: Window<'e>,
    /// `.debug_rnglists`, from version 5 on.
    pub(super) range_lists: Window<'e>,
}

/// Bytes per read of range lists.
const RANGES: u64 = 64 << 10;

/// Maximum size of `.debug_addr`, in bytes.
const MAX_ADDRESSES: u64 = 16 << 20;

impl<'e> Sections<'e> {
    /// Opens the sections; unusable ones are treated as empty and counted.
    pub(super) fn open(file: File<'e>, max_inflated: usize, skipped: &mut u64) -> Sections<'e> {
        let [
            info,
            abbreviations,
            line,
            aranges,
            addresses,
            texts,
            line_texts,
            text_offsets,
            ranges,
            range_lists,
        ] = std::array::from_fn(|number| {
            file.open(number, max_inflated).unwrap_or_else(|Unusable| {
                *skipped += 1;
                Data::Held(&[])
            })
        });
        Sections {
            info,
            abbreviations,
            line,
            aranges,
            addresses: all(addresses),
            texts: Window::new(texts, TEXTS),
            line_texts: Window::new(line_texts, TEXTS),
            text_offsets: Window::new(text_offsets, TEXTS),
            ranges: Window::new(ranges, RANGES),
            range_lists: Window::new(range_lists, RANGES),
        }
    }
}

/// Returns `true` if a file has debug information.
pub(super) fn has_any(elf: &Elf) -> bool {
    ["info", "line"].iter().any(|name| find(elf, name).is_some())
}

fn all(data: Data<'_>) -> Vec<u8> {
    data.range(0, data.size().min(MAX_ADDRESSES)).map(|bytes| bytes.into_owned()).unwrap_or_default()
}

fn find<'s>(elf: &'s Elf, name: &str) -> Option<&'s Section> {
    elf.section(&format!(".debug_{name}")).or_else(|| elf.section(&format!(".zdebug_{name}")))
}

/// A section that is too large, invalid, or not compressed with zlib.
struct Unusable;

impl<'e> File<'e> {
    /// Opens the section with an index into [`NAMES`].
    fn open(self, number: usize, max: usize) -> Result<Data<'e>, Unusable> {
        let name = NAMES.get(number).ok_or(Unusable)?;
        let Some(section) = find(self.elf, name) else { return Ok(Data::Held(&[])) };
        let data = Data::of(self.elf, section);
        if section.flags & COMPRESSED == 0 && !section.name.starts_with(".zdebug") {
            return Ok(data);
        }
        let kept = self.inflated.0.get(number).ok_or(Unusable)?;
        let bytes = kept.get_or_init(|| inflate(section, &data, max).ok()).as_ref().ok_or(Unusable)?;
        Ok(Data::Held(bytes))
    }
}

fn inflate(section: &Section, data: &Data<'_>, max: usize) -> Result<Vec<u8>, Unusable> {
    if section.flags & COMPRESSED != 0 {
        let head = piece(data, 0, size_of::<CompressionHeader64<LE>>() as u64)?;
        let (header, _) = pod::from_bytes::<CompressionHeader64<LE>>(&head).map_err(|()| Unusable)?;
        if header.ch_type.get(LE) != ELFCOMPRESS_ZLIB {
            return Err(Unusable);
        }
        return inflate_from(data, head.len() as u64, header.ch_size.get(LE), max);
    }
    // The older form: ZLIB and the size as eight bytes, big-endian.
    let head = piece(data, 0, 12)?;
    let (magic, size) = head.split_at(4);
    let size = size.try_into().map(u64::from_be_bytes).map_err(|_| Unusable)?;
    if magic == b"ZLIB" { inflate_from(data, 12, size, max) } else { Err(Unusable) }
}

fn piece(data: &Data<'_>, at: u64, size: u64) -> Result<Vec<u8>, Unusable> {
    data.range(at, size).map(|bytes| bytes.into_owned()).map_err(|_| Unusable)
}

fn inflate_from(data: &Data<'_>, at: u64, size: u64, max: usize) -> Result<Vec<u8>, Unusable> {
    // The best ratio of deflate bounds the size that a small section can claim.
    const BEST_RATIO: u64 = 1032;
    let compressed = data.size().saturating_sub(at);
    if size.max(compressed) > max as u64 || size / BEST_RATIO > compressed {
        return Err(Unusable);
    }
    // In one piece: inflating in parts copies once more.
    let compressed = piece(data, at, compressed)?;
    let mut inflated = vec![0; size as usize];
    let mut stream = Decompress::new(true);
    let status = stream.decompress(&compressed, &mut inflated, FlushDecompress::Finish);
    let is_whole = matches!(status, Ok(Status::StreamEnd)) && stream.total_out() == size;
    if is_whole { Ok(inflated) } else { Err(Unusable) }
}
