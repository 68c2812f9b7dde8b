//! Frame description entries: one function each.

use std::ops::Range;

use crate::bytes::Bytes;

use super::cie::Functions;
use super::entry::Entry;
use super::pointer;

/// A frame description entry.
#[derive(Clone, Debug)]
pub(crate) struct Fde<'a> {
    /// Virtual addresses of the function.
    pub(crate) range: Range<u64>,
    /// Call frame instructions of the function.
    pub(crate) instructions: Bytes<'a>,
}

impl<'a> Fde<'a> {
    /// Parses an entry of the section at virtual address `address`.
    #[inline(always)]
    pub(crate) fn parse(address: u64, entry: &Entry<'a>, functions: Functions) -> Option<Fde<'a>> {
        let mut body = entry.body;
        let place = address.wrapping_add(entry.body_offset as u64);
        let (begin, size) = pointer::read_with_size(&mut body, functions.encoding, place)?;
        let end = begin.checked_add(size)?;
        if functions.augmented {
            let size = body.uleb()?;
            body.take(size)?;
        }
        Some(Fde { range: begin..end, instructions: body })
    }
}
