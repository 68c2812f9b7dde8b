//! The functions that `.eh_frame` describes, in the order in which `.eh_frame_hdr` names them.
//!
//! Nobody has to keep or to sort them then. But a file can claim anything, and linkers that fold equal functions name
//! one description of an address, be it an empty one, and leave others unnamed:
//!
//! ```text
//!   .eh_frame_hdr   a ► FDE 1   b ► FDE 4   c ► FDE 2         each names one that is there, and no other does
//!   .eh_frame       1: a..      2: c..      3: b..  4: b..b   3 is unnamed, and holds instead of the empty one
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
    /// Where nothing is described, the end of a function being where it begins.
    empty: Starts,
    /// Where functions begin whose descriptions aren't named, and those.
    unnamed: Vec<(u64, usize)>,
}

/// So many may be unnamed. Each is read by itself.
const MAX_UNNAMED: u32 = 1 << 12;

impl Listed {
    /// `None` where the table names something else than descriptions, or not nearly all of them.
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
        pairs.had_all().then_some(())?;
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

    /// All functions, up to the first that is out of order or not in the code.
    pub(crate) fn items<'a>(&'a self, elf: &'a Elf, section: &'a Section, code: &'a Code) -> Items<'a> {
        let Listed { table, empty, unnamed } = self;
        let pairs = table.pairs(elf);
        let mut items = Items { pairs, section, code, empty, unnamed, least: 0, held: None, ahead: None };
        items.ahead = items.function();
        items
    }
}

/// Where the function begins that is described at `offset`, unless it is empty; `None` where that makes no sense.
fn begin(offset: usize, reader: &mut Reader<'_>, cies: &mut Cies) -> Option<Option<u64>> {
    let Kind::Fde(cie) = reader.entry(offset)?.kind else { return None };
    let functions = cies.find(cie, reader)?;
    let address = reader.section().address;
    let range = Fde::parse(address, &reader.entry(offset)?, functions)?.range;
    Some((!range.is_empty()).then_some(range.start))
}

/// Goes through the functions.
pub(crate) struct Items<'a> {
    pairs: Pairs<'a>,
    section: &'a Section,
    code: &'a Code,
    empty: &'a Starts,
    unnamed: &'a [(u64, usize)],
    /// The next pair begins here or behind.
    least: u64,
    /// The next function that is named, where one that isn't comes before.
    held: Option<(u64, usize)>,
    /// The next function.
    ahead: Option<(u64, usize)>,
}

impl Items<'_> {
    /// Where the next function begins.
    pub(crate) fn begin(&self) -> Option<u64> {
        self.ahead.map(|(begin, _)| begin)
    }

    /// Whether these were all.
    pub(crate) fn had_all(&self) -> bool {
        self.pairs.had_all() && self.unnamed.is_empty() && self.ahead.is_none()
    }

    #[inline]
    fn named(&mut self) -> Option<(u64, usize)> {
        loop {
            let (begin, description) = self.pairs.next()?;
            let offset = self.section.offset_of(description);
            let Some(offset) = offset.filter(|_| begin >= self.least && self.code.end(begin).is_some())
            else {
                self.pairs.give_up();
                return None;
            };
            self.least = begin + 1;
            if !self.empty.has(offset) {
                return Some((begin, offset));
            }
        }
    }

    /// Of several descriptions of one address the first in the file holds.
    #[inline]
    fn function(&mut self) -> Option<(u64, usize)> {
        let named = self.held.take().or_else(|| self.named());
        match (self.unnamed.first(), named) {
            (None, _) => named,
            (Some(unnamed), Some(named)) if named.0 < unnamed.0 => Some(named),
            (Some(&unnamed), _) => self.merged(unnamed, named),
        }
    }

    /// The next function where this one, which isn't named, doesn't begin behind the next that is.
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
