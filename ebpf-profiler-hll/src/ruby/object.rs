//! Reads objects: strings, arrays, and the flags of any.
//!
//! ```text
//!   flags   type 5 bits | … | embedded or not: bit 13 | length of what is embedded: from bit 14 or 15 on
//!   string  flags, class, length, address of the text       or flags, class, [length,] text
//!   array   flags, class, length, capacity, address         or flags, class, elements
//! ```

use ebpf_profiler_core::language::{Memory, Reason};

use super::offsets::Offsets;

/// Types of objects, in the low five bits of their flags.
pub(super) mod kind {
    pub(in crate::ruby) const MASK: u64 = 0x1f;
    pub(in crate::ruby) const CLASS: u64 = 2;
    pub(in crate::ruby) const MODULE: u64 = 3;
    pub(in crate::ruby) const STRING: u64 = 5;
    pub(in crate::ruby) const ARRAY: u64 = 7;
    /// A module in the ancestors of a class.
    pub(in crate::ruby) const INCLUDED: u64 = 0x1c;
}

/// A string whose text isn't within its object, an array whose elements are.
const FLAG: u64 = 1 << 13;

/// Maximum length of a string, in bytes; longer ones are truncated.
const MAX_TEXT: u64 = 4096;

/// Marks a truncated string.
const ELLIPSIS: char = '…';

/// Returns `true` if a value can be the address of an object.
pub(super) fn is_address(value: u64) -> bool {
    value > 0xffff && value.is_multiple_of(8)
}

/// Reads the flags of an object.
pub(super) fn flags(object: u64, memory: &dyn Memory) -> Result<u64, Reason> {
    if !is_address(object) {
        return Err(Reason::Implausible);
    }
    Ok(memory.u64(object)?)
}

/// Reads a string.
pub(super) fn text(object: u64, offsets: &Offsets, memory: &dyn Memory) -> Result<String, Reason> {
    let flags = flags(object, memory)?;
    if flags & kind::MASK != kind::STRING {
        return Err(Reason::Implausible);
    }
    let is_apart = flags & FLAG != 0;
    let length = match offsets.text.length {
        Some(at) => memory.u64(object.wrapping_add(at.into()))?,
        None if is_apart => memory.u64(object.wrapping_add(16))?,
        None => flags >> 14 & 0x1f,
    };
    let data = match is_apart {
        true => memory.u64(object.wrapping_add(24))?,
        false => object.wrapping_add(offsets.text.data.into()),
    };
    if length > 1 << 32 {
        return Err(Reason::Implausible);
    }
    let bytes = memory.bytes(data, length.min(MAX_TEXT), MAX_TEXT as usize)?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if length > MAX_TEXT {
        // The last character may be incomplete.
        while text.ends_with(char::REPLACEMENT_CHARACTER) {
            text.pop();
        }
        text.push(ELLIPSIS);
    }
    Ok(text)
}

/// Reads an element of an array.
pub(super) fn element(
    object: u64,
    index: u64,
    offsets: &Offsets,
    memory: &dyn Memory,
) -> Result<u64, Reason> {
    let flags = flags(object, memory)?;
    if flags & kind::MASK != kind::ARRAY {
        return Err(Reason::Implausible);
    }
    let (length, elements) = match flags & FLAG {
        0 => (memory.u64(object.wrapping_add(16))?, memory.u64(object.wrapping_add(32))?),
        _ => (flags >> 15 & offsets.array_embedded, object.wrapping_add(16)),
    };
    if index >= length {
        return Err(Reason::Implausible);
    }
    Ok(memory.u64(elements.wrapping_add(index.wrapping_mul(8)))?)
}
