//! The functions that are described somewhere, in the order of their addresses.
//!
//! Eight bytes a function: the address as a distance from the first code, and where its description stands.
//! Entries are read again when their turn comes, which is cheaper than to keep what was read.

use crate::arch::Registers;
use crate::code::Code;
use crate::eh_frame::cie::Cache;
use crate::eh_frame::entry::{Kind, Section};
use crate::eh_frame::fde::Fde;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// `distance << 32 | place`
    keys: Vec<u64>,
    /// Entries that make no sense.
    pub(crate) malformed: u32,
}

/// One described function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Where the function begins.
    pub(crate) begin: u64,
    /// Where the next function begins.
    pub(crate) next: u64,
    /// Where its description stands.
    pub(crate) place: u32,
}

impl Index {
    /// The functions that `section` describes.
    pub(crate) fn of(section: &Section, code: &Code, registers: &Registers) -> Index {
        let mut index = Index::default();
        let mut cache = Cache::new();
        let mut entries = section.entries();
        for entry in entries.by_ref() {
            let Kind::Fde(cie) = entry.kind else { continue };
            let fde = cache.get(section, cie, registers).and_then(|cie| Fde::parse(section, &entry, cie));
            match fde {
                Some(fde) if fde.range.is_empty() => {}
                Some(fde) if code.end(fde.range.start).is_some() => {
                    let distance = fde.range.start - code.start();
                    index.keys.push(distance << 32 | entry.offset as u64);
                }
                _ => index.malformed += 1,
            }
        }
        index.malformed += u32::from(entries.is_truncated());
        index.sort();
        index
    }

    /// Of several descriptions of one address the first in the file holds.
    fn sort(&mut self) {
        if !self.keys.is_sorted() {
            self.keys.sort();
        }
        self.keys.dedup_by_key(|key| *key >> 32);
    }

    /// All functions.
    pub(crate) fn items(&self, code: &Code) -> impl Iterator<Item = Item> {
        let start = code.start();
        let begin = move |key: &u64| start + (key >> 32);
        let following = self.keys.iter().skip(1).map(begin).chain([u64::MAX]);
        self.keys.iter().zip(following).map(move |(key, next)| Item {
            begin: begin(key),
            next,
            place: *key as u32,
        })
    }
}
