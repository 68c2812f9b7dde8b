//! The sections of debug information, read in pieces, inflated where they are compressed.

use std::io::Read;

use addr2line::gimli::{EndianSlice, LittleEndian};
use object::LittleEndian as LE;
use object::elf::{CompressionHeader64, ELFCOMPRESS_ZLIB};
use object::pod;

use crate::elf::{COMPRESSED, Elf, Section};
use crate::symbol::data::Data;
use crate::symbol::window::{TEXTS, Window};

/// How gimli sees bytes here.
pub(super) type Bytes<'u> = EndianSlice<'u, LittleEndian>;

/// The sections of one file.
pub(super) struct Sections<'e> {
    pub(super) info: Data<'e>,
    pub(super) abbreviations: Data<'e>,
    pub(super) line: Data<'e>,
    pub(super) aranges: Data<'e>,
    /// All of `.debug_addr`: lists of ranges point into it anywhere.
    pub(super) addresses: Vec<u8>,
    pub(super) texts: Window<'e>,
    pub(super) line_texts: Window<'e>,
    pub(super) text_offsets: Window<'e>,
    /// `.debug_ranges`, up to version 4.
    pub(super) ranges: Window<'e>,
    /// `.debug_rnglists`, from version 5 on.
    pub(super) range_lists: Window<'e>,
}

/// What is read at once of lists of ranges.
const RANGES: u64 = 64 << 10;

/// The most that `.debug_addr` may have.
const MAX_ADDRESSES: u64 = 16 << 20;

impl<'e> Sections<'e> {
    /// Opens the sections; those that can't be used are as if they weren't there, and are counted.
    pub(super) fn open(elf: &'e Elf, max_inflated: usize, skipped: &mut u64) -> Sections<'e> {
        let mut data = |name: &str| {
            open(elf, name, max_inflated).unwrap_or_else(|Unusable| {
                *skipped += 1;
                Data::Owned(Vec::new())
            })
        };
        Sections {
            info: data("info"),
            abbreviations: data("abbrev"),
            line: data("line"),
            aranges: data("aranges"),
            addresses: all(data("addr")),
            texts: Window::new(data("str"), TEXTS),
            line_texts: Window::new(data("line_str"), TEXTS),
            text_offsets: Window::new(data("str_offsets"), TEXTS),
            ranges: Window::new(data("ranges"), RANGES),
            range_lists: Window::new(data("rnglists"), RANGES),
        }
    }
}

/// Whether a file has any debug information.
pub(super) fn has_any(elf: &Elf) -> bool {
    ["info", "line"].iter().any(|name| find(elf, name).is_some())
}

fn all(data: Data<'_>) -> Vec<u8> {
    data.range(0, data.size().min(MAX_ADDRESSES)).map(|bytes| bytes.into_owned()).unwrap_or_default()
}

fn find<'s>(elf: &'s Elf, name: &str) -> Option<&'s Section> {
    elf.section(&format!(".debug_{name}")).or_else(|| elf.section(&format!(".zdebug_{name}")))
}

/// Too large, broken, or compressed in another way than zlib's.
struct Unusable;

fn open<'e>(elf: &'e Elf, name: &str, max: usize) -> Result<Data<'e>, Unusable> {
    let Some(section) = find(elf, name) else { return Ok(Data::Owned(Vec::new())) };
    let data = Data::of(elf, section);
    if section.flags & COMPRESSED != 0 {
        let head = piece(&data, 0, size_of::<CompressionHeader64<LE>>() as u64)?;
        let (header, _) = pod::from_bytes::<CompressionHeader64<LE>>(&head).map_err(|()| Unusable)?;
        if header.ch_type.get(LE) != ELFCOMPRESS_ZLIB {
            return Err(Unusable);
        }
        return inflate(&data, head.len() as u64, header.ch_size.get(LE), max);
    }
    if section.name.starts_with(".zdebug") {
        // The older form: ZLIB and eight bytes, the most significant first.
        let head = piece(&data, 0, 12)?;
        let (magic, size) = head.split_at(4);
        let size = size.try_into().map(u64::from_be_bytes).map_err(|_| Unusable)?;
        return if magic == b"ZLIB" { inflate(&data, 12, size, max) } else { Err(Unusable) };
    }
    Ok(data)
}

fn piece(data: &Data<'_>, at: u64, size: u64) -> Result<Vec<u8>, Unusable> {
    data.range(at, size).map(|bytes| bytes.into_owned()).map_err(|_| Unusable)
}

fn inflate<'e>(data: &Data<'_>, at: u64, size: u64, max: usize) -> Result<Data<'e>, Unusable> {
    // Nothing shrinks more than this, so a small section can't claim to be a large one.
    const BEST_RATIO: u64 = 1032;
    if size > max as u64 || size / BEST_RATIO > data.size() {
        return Err(Unusable);
    }
    let mut inflated = Vec::with_capacity(size as usize);
    let source = Pieces { data, at };
    flate2::read::ZlibDecoder::new(source).take(size).read_to_end(&mut inflated).map_err(|_| Unusable)?;
    if inflated.len() as u64 == size { Ok(Data::Owned(inflated)) } else { Err(Unusable) }
}

/// Reads a section from front to back.
struct Pieces<'d, 'e> {
    data: &'d Data<'e>,
    at: u64,
}

impl Read for Pieces<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let size = (self.data.size().saturating_sub(self.at)).min(buffer.len() as u64);
        let bytes = self.data.range(self.at, size).map_err(std::io::Error::other)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.at += size;
        Ok(bytes.len())
    }
}
