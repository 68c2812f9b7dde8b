//! Pointer encodings of `.eh_frame`.
//!
//! ```text
//!   bit   7          6 5 4          3 2 1 0
//!         indirect   relative to    format: 0 address, 1 uleb, 2-4 unsigned 2, 4, 8 bytes, 9-12 the same, signed
//! ```

use crate::bytes::Bytes;

/// Absolute, eight bytes.
pub(crate) const ABSOLUTE: u8 = 0x00;
/// Four bytes, signed, relative to their own address: the encoding that linkers write.
const USUAL: u8 = 0x1b;
/// Absent pointer.
const OMITTED: u8 = 0xff;
/// Relative to its own address.
const RELATIVE: u8 = 0x10;
/// Padded to a multiple of eight bytes.
const ALIGNED: u8 = 0x50;

/// Decodes a pointer at virtual address `place`.
///
/// Returns `None` for encodings that need a running process: indirect ones, and those relative to a
/// base that the file does not contain.
pub(crate) fn read(bytes: &mut Bytes<'_>, encoding: u8, place: u64) -> Option<u64> {
    let base = match encoding & 0xf0 {
        0 => 0,
        RELATIVE => place,
        _ => return None,
    };
    Some(base.wrapping_add(value(bytes, encoding)?))
}

/// Decodes a pointer at virtual address `place`, and the size behind it in the same format.
#[inline(always)]
pub(crate) fn read_with_size(bytes: &mut Bytes<'_>, encoding: u8, place: u64) -> Option<(u64, u64)> {
    if encoding == USUAL {
        let both = bytes.u64()?;
        let signed = |number: u64| i64::from(number as i32) as u64;
        return Some((place.wrapping_add(signed(both)), signed(both >> 32)));
    }
    let mut rest = *bytes;
    let both = rare_with_size(&mut rest, encoding, place);
    *bytes = rest;
    both
}

#[cold]
#[inline(never)]
fn rare_with_size(bytes: &mut Bytes<'_>, encoding: u8, place: u64) -> Option<(u64, u64)> {
    Some((read(bytes, encoding, place)?, value(bytes, encoding)?))
}

/// Decodes the number of a pointer.
pub(crate) fn value(bytes: &mut Bytes<'_>, encoding: u8) -> Option<u64> {
    Some(match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => bytes.u64()?,
        0x01 => bytes.uleb()?,
        0x02 => bytes.u16()?.into(),
        0x03 => bytes.u32()?.into(),
        0x09 => bytes.sleb()? as u64,
        0x0a => i64::from(bytes.u16()? as i16) as u64,
        0x0b => i64::from(bytes.u32()? as i32) as u64,
        _ => return None,
    })
}

/// Skips a pointer of any base at virtual address `place`.
pub(crate) fn skip(bytes: &mut Bytes<'_>, encoding: u8, place: u64) -> Option<()> {
    match encoding {
        OMITTED => {}
        ALIGNED => {
            bytes.take(place.wrapping_neg() % 8)?;
            bytes.u64()?;
        }
        _ => {
            value(bytes, encoding)?;
        }
    }
    Some(())
}
