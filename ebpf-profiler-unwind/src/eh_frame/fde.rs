//! Frame description entries: one function each.

use std::ops::Range;

use crate::bytes::Bytes;

use super::cie::Cie;
use super::entry::{Entry, Section};
use super::pointer;

/// A frame description entry.
#[derive(Clone, Debug)]
pub(crate) struct Fde<'a> {
    /// The virtual addresses of the function.
    pub(crate) range: Range<u64>,
    /// How its frame changes from instruction to instruction.
    pub(crate) instructions: Bytes<'a>,
}

impl<'a> Fde<'a> {
    #[inline]
    pub(crate) fn parse(section: &Section, entry: &Entry<'a>, cie: &Cie<'_>) -> Option<Fde<'a>> {
        let mut body = entry.body;
        let place = section.address.wrapping_add(entry.body_offset as u64);
        let begin = pointer::read(&mut body, cie.encoding, place)?;
        let size = pointer::value(&mut body, cie.encoding)?;
        let end = begin.checked_add(size)?;
        if cie.augmented {
            let size = body.uleb()?;
            body.take(size)?;
        }
        Some(Fde { range: begin..end, instructions: body })
    }
}
