//! Functions by address, the latest at each.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::MAX_FUNCTIONS;

/// One function of JIT-compiled code.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub(super) name: Arc<str>,
    /// Ascending offsets in the code, each with the file and line from there on.
    pub(super) lines: Vec<(u64, Arc<str>, u32)>,
}

impl Code {
    /// Returns the file and line of the instruction at `offset`; empty and 0 if unknown.
    pub(super) fn line(&self, offset: u64) -> (Arc<str>, u32) {
        let next = self.lines.partition_point(|&(from, ..)| from <= offset);
        let line = next.checked_sub(1).map(|index| &self.lines[index]);
        line.map_or_else(Default::default, |(_, file, line)| (file.clone(), *line))
    }
}

/// Functions that do not overlap, by address.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeMap {
    /// By start, with the end.
    functions: BTreeMap<u64, (u64, Code)>,
}

impl CodeMap {
    /// Adds a function and removes those that it overlaps: their memory was freed. Code without a
    /// name only removes.
    ///
    /// Returns `false`, and adds nothing, if the map is full or the range empty.
    pub(super) fn insert(&mut self, start: u64, end: u64, code: Code) -> bool {
        if start >= end {
            return false;
        }
        while let Some((&overlapped, _)) =
            self.functions.range(..end).next_back().filter(|(_, (other, _))| start < *other)
        {
            self.functions.remove(&overlapped);
        }
        if code.name.is_empty() {
            return true;
        }
        let has_room = self.functions.len() < MAX_FUNCTIONS;
        if has_room {
            self.functions.insert(start, (end, code));
        }
        has_room
    }

    /// Returns the function that holds `address`, and its start.
    pub(super) fn find(&self, address: u64) -> Option<(u64, &Code)> {
        let (&start, (end, code)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some((start, code))
    }
}
