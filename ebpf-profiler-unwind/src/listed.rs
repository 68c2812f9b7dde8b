//! The functions of `.eh_frame`, in the order of the search table in `.eh_frame_hdr`.
//!
//! No index has to be kept and sorted then. But the table is untrusted, and linkers that fold equal
//! functions list one FDE of an address, even an empty one, and omit the others:
//!
//! ```text
//!   .eh_frame_hdr   a ► FDE 1   b ► FDE 4   c ► FDE 2         each listed FDE exists, and is listed once
//!   .eh_frame       1: a..      2: c..      3: b..  4: b..b   3 is not listed, and replaces the empty one
//! ```

use ebpf_profiler_core::elf::Elf;

use crate::code::Code;
use crate::eh_frame::cies::Cies;
use crate::eh_frame::entry::Kind;
use crate::eh_frame::fde::Fde;
use crate::eh_frame::section::{Reader, Section};
use crate::eh_frame::starts::Starts;
use crate::index::{Item, Place};
use crate::source::{Pairs, SearchTable};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Listed {
    table: SearchTable,
    /// FDEs of empty functions.
    empty: Starts,
    /// Starts and FDE offsets of functions that are not listed, sorted.
    unnamed: Vec<(u64, usize)>,
}

/// Maximum number of functions that are not listed. Each is read separately.
const MAX_UNNAMED: u32 = 1 << 12;

impl Listed {
    /// Checks the table. Returns `None` if it lists anything but FDEs, or lacks too many of them.
    pub(crate) fn of(
        elf: &Elf,
        table: SearchTable,
        reader: &mut Reader<'_>,
        cies: &mut Cies,
    ) -> Option<Listed> {
        let section = reader.section();
        let mut starts = Starts::of(elf, section)?;
        starts.count.checked_sub(table.count()).filter(|&unnamed| unnamed <= MAX_UNNAMED)?;
        let counts = starts.counts();
        let mut pairs = table.pairs(elf);
        for (_, description) in &mut pairs {
            starts.take(section.offset_of(description)?)?;
        }
        pairs.is_complete().then_some(())?;
        let mut unnamed = Vec::new();
        for offset in starts.rest() {
            unnamed.extend(begin(offset, reader, cies)?.map(|begin| (begin, offset)));
        }
        unnamed.sort_unstable();
        for &offset in &starts.empty {
            begin(offset, reader, cies)?.is_none().then_some(())?;
        }
        reader.expect(counts);
        Some(Listed { table, empty: starts.only_empty(), unnamed })
    }

    /// Iterates over all functions, up to the first that is out of order or outside the code.
    pub(crate) fn items<'a>(&'a self, elf: &'a Elf, section: &'a Section, code: &'a Code) -> Items<'a> {
        let Listed { table, empty, unnamed } = self;
        let pairs = table.pairs(elf);
        let mut items = Items { pairs, section, code, empty, unnamed, least: 0, held: None, ahead: None };
        items.ahead = items.function();
        items
    }
}

/// Returns the start of the function at `offset`: `Some(None)` if it is empty, `None` if it is
/// malformed.
fn begin(offset: usize, reader: &mut Reader<'_>, cies: &mut Cies) -> Option<Option<u64>> {
    let Kind::Fde(cie) = reader.entry(offset)?.kind else { return None };
    let functions = cies.find(cie, reader)?;
    let address = reader.section().address;
    let range = Fde::parse(address, &reader.entry(offset)?, functions)?.range;
    Some((!range.is_empty()).then_some(range.start))
}

/// Iterator over the functions.
pub(crate) struct Items<'a> {
    pairs: Pairs<'a>,
    section: &'a Section,
    code: &'a Code,
    empty: &'a Starts,
    unnamed: &'a [(u64, usize)],
    /// Minimum start of the next pair.
    least: u64,
    /// The next listed function, if one that is not listed comes before it.
    held: Option<(u64, usize)>,
    /// The next function.
    ahead: Option<(u64, usize)>,
}

impl Items<'_> {
    /// Returns the start of the next function.
    pub(crate) fn begin(&self) -> Option<u64> {
        self.ahead.map(|(begin, _)| begin)
    }

    /// Returns `true` if all functions were returned.
    pub(crate) fn is_complete(&self) -> bool {
        self.pairs.is_complete() && self.unnamed.is_empty() && self.ahead.is_none()
    }

    #[inline]
    fn named(&mut self) -> Option<(u64, usize)> {
        loop {
            let (begin, description) = self.pairs.next()?;
            let offset = self.section.offset_of(description);
            let Some(offset) = offset.filter(|_| begin >= self.least && self.code.end(begin).is_some())
            else {
                self.pairs.stop();
                return None;
            };
            self.least = begin + 1;
            if !self.empty.has(offset) {
                return Some((begin, offset));
            }
        }
    }

    /// Returns the next function. Of several FDEs of one address the first in the file is used.
    #[inline]
    fn function(&mut self) -> Option<(u64, usize)> {
        let named = self.held.take().or_else(|| self.named());
        match (self.unnamed.first(), named) {
            (None, _) => named,
            (Some(unnamed), Some(named)) if named.0 < unnamed.0 => Some(named),
            (Some(&unnamed), _) => self.merged(unnamed, named),
        }
    }

    /// Returns the next function, if `unnamed` does not begin behind the next listed one.
    #[inline(never)]
    fn merged(&mut self, unnamed: (u64, usize), named: Option<(u64, usize)>) -> Option<(u64, usize)> {
        let function = named.map_or(unnamed, |named| named.min(unnamed));
        self.code.end(function.0)?;
        while self.unnamed.first().is_some_and(|other| other.0 == function.0) {
            self.unnamed = &self.unnamed[1..];
        }
        self.held = named.filter(|named| named.0 != function.0);
        Some(function)
    }
}

impl Iterator for Items<'_> {
    type Item = Item;

    #[inline]
    fn next(&mut self) -> Option<Item> {
        let (begin, offset) = self.ahead?;
        self.ahead = self.function();
        let next = self.ahead.map_or(u64::MAX, |(next, _)| next);
        Some(Item { begin, next, place: Place::Frames { section: 0, offset } })
    }
}
