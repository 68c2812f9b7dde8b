//! The code of a file: only there functions can begin.

use std::ops::Range;

use ebpf_profiler_core::elf::{Elf, Segment, segment_type};
use ebpf_programs::abi::table::ALIGNMENT;

/// The executable parts of a file's address space, in order, without overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Code(Vec<Range<u64>>);

const EXECUTE: u32 = 1;

/// Size of the address space that a table covers: 4 GiB.
const MAX_SPAN: u64 = 1 << 32;

/// Last page boundary of the address space.
const LAST: u64 = u64::MAX - 2 * ALIGNMENT;

impl Code {
    pub(crate) fn of(elf: &Elf) -> Code {
        let executable = |s: &&Segment| s.kind == segment_type::PT_LOAD && s.flags & EXECUTE != 0;
        let range = |s: &Segment| s.address..s.address.saturating_add(s.memory_size);
        Code::new(elf.segments().iter().filter(executable).map(range).collect())
    }

    fn new(mut ranges: Vec<Range<u64>>) -> Code {
        ranges.iter_mut().for_each(|range| range.end = range.end.min(LAST));
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by_key(|range| range.start);
        ranges.dedup_by(|next, range| {
            let joined = next.start <= range.end;
            if joined {
                range.end = range.end.max(next.end);
            }
            joined
        });
        let limit = ranges.first().map_or(0, |first| first.start.saturating_add(MAX_SPAN));
        ranges.retain(|range| range.start < limit);
        if let Some(last) = ranges.last_mut() {
            last.end = last.end.min(limit);
        }
        Code(ranges)
    }

    /// Returns the address that offsets are relative to.
    pub(crate) fn start(&self) -> u64 {
        self.0.first().map_or(0, |first| first.start)
    }

    /// Returns the end of the first part.
    pub(crate) fn first_end(&self) -> u64 {
        self.0.first().map_or(0, |first| first.end)
    }

    /// Returns the end of the part that contains `address`.
    #[inline]
    pub(crate) fn end(&self, address: u64) -> Option<u64> {
        self.0.iter().find(|range| range.contains(&address)).map(|range| range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, MAX_SPAN};

    #[test]
    fn parts_are_sorted_joined_and_bounded() {
        let far = 0x1000 + 2 * MAX_SPAN;
        let code = Code::new(vec![0x5000..0x6000, far..far + 1, 0x1000..0x2000, 0x1800..0x3000, 9..9]);
        assert_eq!(code, Code(vec![0x1000..0x3000, 0x5000..0x6000]));
        assert_eq!(code.start(), 0x1000);
        assert_eq!(code.end(0x2fff), Some(0x3000));
        assert_eq!(code.end(0x3000), None);
        assert_eq!(Code::new(vec![9..9, 1..u64::MAX]).end(1), Some(1 + MAX_SPAN));
    }
}
