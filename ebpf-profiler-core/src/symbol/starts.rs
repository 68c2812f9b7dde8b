//! Starts of functions without a symbol, from the search table of unwind data (`.eh_frame_hdr`).
//!
//! ```text
//!   .eh_frame_hdr   version: u8 = 1, encodings of pointer, count and table: u8 each, pointer to .eh_frame, count: u32,
//!                   { function: i32, description: i32 } for each, from the header's own address, sorted
//!   description     length: u32, back to what it shares with others: u32, function: i32 from here, size: u32, …
//! ```
//!
//! This is the form that all linkers write. The description has to confirm the table's entry: a file can claim
//! anything, and undescribed code may follow the end of a function.

use crate::elf::{Elf, segment_type};

/// The search table of a file.
pub(super) struct Starts<'e> {
    elf: &'e Elf,
    /// The address of the header.
    header: u64,
    /// The address of the table.
    table: u64,
    count: u64,
}

impl<'e> Starts<'e> {
    /// Opens the search table of `elf`, if it has one of the usual form.
    pub(super) fn of(elf: &'e Elf) -> Option<Starts<'e>> {
        let segment = elf.segments().iter().find(|s| s.kind == segment_type::PT_GNU_EH_FRAME)?;
        let header = segment.address;
        let [version, pointer, count, table] = read(elf, header)?;
        let pointer = match pointer & FORMAT {
            UDATA4 | SDATA4 => 4,
            UDATA8 | SDATA8 => 8,
            _ => return None,
        };
        if (version, count, table) != (1, UDATA4, FROM_HEADER | SDATA4) {
            return None;
        }
        let at = header.checked_add(4 + pointer)?;
        let count = u32::from_le_bytes(read(elf, at)?);
        Some(Starts { elf, header, table: at.checked_add(4)?, count: count.into() })
    }

    /// Returns the start of the function that contains `address`.
    pub(super) fn find(&self, address: u64) -> Option<u64> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)?.0 <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let (start, description) = self.entry(low.checked_sub(1)?)?;
        let [_, _, function, size] = words::<16, 4>(read(self.elf, description)?);
        let described = description.checked_add(8)?.wrapping_add_signed(i64::from(function as i32));
        (described == start && address - start < u64::from(size)).then_some(start)
    }

    /// Returns the addresses of a function and of its description.
    fn entry(&self, index: u64) -> Option<(u64, u64)> {
        const ENTRY: u64 = 8;
        let bytes: [u8; ENTRY as usize] = read(self.elf, self.table.checked_add(index * ENTRY)?)?;
        let from_header = |word: u32| self.header.wrapping_add_signed(i64::from(word as i32));
        let [function, description] = words(bytes);
        Some((from_header(function), from_header(description)))
    }
}

/// The bits of an encoding for size and sign.
const FORMAT: u8 = 0x0f;
const UDATA4: u8 = 0x03;
const UDATA8: u8 = 0x04;
const SDATA4: u8 = 0x0b;
const SDATA8: u8 = 0x0c;
/// The bits of an encoding for relative to the header.
const FROM_HEADER: u8 = 0x30;

fn read<const N: usize>(elf: &Elf, address: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    elf.read(address, &mut bytes).ok()?;
    Some(bytes)
}

/// Converts bytes to 32-bit numbers.
fn words<const N: usize, const M: usize>(bytes: [u8; N]) -> [u32; M] {
    let mut words = bytes.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes));
    std::array::from_fn(|_| words.next().unwrap_or(0))
}
