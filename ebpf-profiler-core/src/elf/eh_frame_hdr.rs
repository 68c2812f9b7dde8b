//! `.eh_frame_hdr`: the address of `.eh_frame` and a search table of its functions, sorted by the
//! linker.
//!
//! ```text
//!   version: u8 = 1, encodings of pointer, count and table: u8 each, pointer to .eh_frame, count: u32,
//!   { function: i32, FDE: i32 } for each function, relative to the start of the header
//!
//!   encoding   bits 0-3  0 8 bytes, 2 to 4 unsigned 2, 4, 8 bytes, a to c the same, signed     ff  absent
//!              bits 4-6  0 absolute, 1 relative to its own address, 3 relative to the header
//! ```
//!
//! Linkers write the table with the encodings 03 (count) and 3b (pairs); of others only the pointer
//! is read.

use super::{Elf, segment_type};

/// The `.eh_frame_hdr` section: the address of `.eh_frame` and a binary search table of its entries
/// (FDEs). Found through `PT_GNU_EH_FRAME`.
///
/// The contents are what the file claims: neither order nor addresses are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EhFrameHdr {
    address: u64,
    eh_frame: Option<u64>,
    table: u64,
    count: u32,
}

impl EhFrameHdr {
    /// Size of one pair of the search table, in bytes.
    pub const PAIR: usize = 8;

    /// Parses the header of a file. Returns `None` if there is none of version 1.
    pub fn of(elf: &Elf) -> Option<EhFrameHdr> {
        let segment = elf.segments().iter().find(|segment| segment.kind == segment_type::PT_GNU_EH_FRAME)?;
        let mut bytes = [0; MAX_HEADER_SIZE];
        let size = segment.file_size.min(MAX_HEADER_SIZE as u64) as usize;
        elf.fill(segment.offset, &mut bytes[..size]).ok()?;
        let &[1, pointer, count, table] = bytes.first_chunk()? else { return None };
        let address = segment.address;
        let mut header = EhFrameHdr { address, eh_frame: None, table: 0, count: 0 };
        let (value, width) = value(&bytes[4..], pointer)?;
        header.eh_frame = base(pointer, address).map(|base| base.wrapping_add(value));
        let behind = 4 + width + 4;
        if (count, table) == (UDATA4, FROM_HEADER | SDATA4) && behind <= size {
            let count = u32::from_le_bytes(*bytes.get(4 + width..)?.first_chunk()?);
            let end = behind as u64 + u64::from(count) * EhFrameHdr::PAIR as u64;
            if end <= segment.file_size {
                (header.table, header.count) = (segment.offset.checked_add(behind as u64)?, count);
            }
        }
        Some(header)
    }

    /// Returns the virtual address of `.eh_frame`, or `None` if its encoding needs a running
    /// process.
    pub fn eh_frame(&self) -> Option<u64> {
        self.eh_frame
    }

    /// Returns the number of functions in the search table; 0 without one, or if it exceeds the
    /// file.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the file offset of pair `number` of the search table.
    pub fn offset_of(&self, number: u32) -> Option<u64> {
        self.table.checked_add(u64::from(number) * EhFrameHdr::PAIR as u64)
    }

    /// Decodes a pair: the virtual addresses of a function and of its FDE.
    #[inline]
    pub fn decode(&self, pair: [u8; EhFrameHdr::PAIR]) -> (u64, u64) {
        let pair = u64::from_le_bytes(pair);
        let from_header = |word: u32| self.address.wrapping_add_signed(word.cast_signed().into());
        (from_header(pair as u32), from_header((pair >> 32) as u32))
    }

    /// Searches the last function that begins at or before `address`, and its FDE.
    pub fn find(&self, elf: &Elf, address: u64) -> Option<(u64, u64)> {
        self.pair(elf, self.count_up_to(elf, address)?.checked_sub(1)?)
    }

    /// Returns the start of the first function that begins after `address`.
    pub(crate) fn next(&self, elf: &Elf, address: u64) -> Option<u64> {
        let number = self.count_up_to(elf, address).filter(|&number| number < self.count)?;
        // The order is what the file claims.
        self.pair(elf, number).map(|(start, _)| start).filter(|&start| start > address)
    }

    /// Returns the number of functions that begin at or before `address`.
    fn count_up_to(&self, elf: &Elf, address: u64) -> Option<u32> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.pair(elf, middle)?.0 <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    fn pair(&self, elf: &Elf, number: u32) -> Option<(u64, u64)> {
        let mut pair = [0; EhFrameHdr::PAIR];
        elf.fill(self.offset_of(number)?, &mut pair).ok()?;
        Some(self.decode(pair))
    }
}

/// Size of a header with a pointer of eight bytes.
const MAX_HEADER_SIZE: usize = 16;

const UDATA4: u8 = 0x03;
const SDATA4: u8 = 0x0b;
const FROM_HEADER: u8 = 0x30;

/// Decodes the number of a pointer and its size in bytes.
fn value(bytes: &[u8], encoding: u8) -> Option<(u64, usize)> {
    Some(match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => (u64::from_le_bytes(*bytes.first_chunk()?), 8),
        0x02 => (u16::from_le_bytes(*bytes.first_chunk()?).into(), 2),
        0x03 => (u32::from_le_bytes(*bytes.first_chunk()?).into(), 4),
        0x0a => (i64::from(i16::from_le_bytes(*bytes.first_chunk()?)) as u64, 2),
        0x0b => (i64::from(i32::from_le_bytes(*bytes.first_chunk()?)) as u64, 4),
        _ => return None,
    })
}

/// Returns the address that a pointer behind the four bytes at `address` is relative to.
fn base(encoding: u8, address: u64) -> Option<u64> {
    match encoding & 0xf0 {
        0x00 => Some(0),
        0x10 => Some(address.wrapping_add(4)),
        FROM_HEADER => Some(address),
        _ => None,
    }
}
