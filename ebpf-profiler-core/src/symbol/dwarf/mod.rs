//! Source lines and inlined functions, from debug information.
//!
//! ```text
//!   addresses ──► Index: which units ──► for each unit, one pass over its entries ──► chains of calls
//!                                        and one run of its line program         ──► places
//! ```
//!
//! Addresses come sorted and in one go, so a unit is read, passed over once and forgotten: what is in memory at a
//! time is one unit and not the debug information of the file, however large that is. Only the [`Index`] stays.

mod budget;
mod index;
mod lines;
mod names;
mod sections;
mod unit;
mod walk;

use std::rc::Rc;

use super::options::SymbolOptions;
use super::stats::SymbolStats;
use crate::elf::Elf;
use budget::{Budget, Fault};
pub(super) use index::Index;
use index::UnitAt;
use lines::{Lines, Paths, Place};
use names::{Names, Source};
use sections::Sections;

use unit::Unit;
use walk::{CallSite, Calls, Node};

/// Whether a file has any debug information.
pub(super) fn has_any(elf: &Elf) -> bool {
    sections::has_any(elf)
}

/// One function that an address lies in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// As the linker knows it.
    pub(super) name: Option<Rc<[u8]>>,
    pub(super) file: Option<Rc<[u8]>>,
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) start_line: u32,
}

/// The indexes of a file's debug information, and of that which it has in common with others.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    main: Index,
    common: Index,
}

impl Indexes {
    /// Looks at the units of a file.
    pub(super) fn build(
        main: &Elf,
        common: Option<&Elf>,
        options: &SymbolOptions,
        stats: &mut SymbolStats,
    ) -> Indexes {
        let mut index = |elf: &Elf| {
            let mut sections = Sections::open(elf, options.max_inflated, &mut stats.sections_skipped);
            let mut budget = Budget::of(sections.info.size());
            Index::build(&mut sections, &mut budget, &mut stats.malformed)
        };
        Indexes { main: index(main), common: common.map(index).unwrap_or_default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.main.bytes() + self.common.bytes()
    }

    /// The functions of each of `addresses`, ascending: innermost first.
    pub(super) fn frames(
        &self,
        main: &Elf,
        common: Option<&Elf>,
        addresses: &[u64],
        options: &SymbolOptions,
        stats: &mut SymbolStats,
    ) -> Vec<Vec<Frame>> {
        // What is skipped was counted when the index was built.
        let open = |elf, index| {
            Source::new(Sections::open(elf, options.max_inflated, &mut 0), index, options.max_unit)
        };
        let main = open(main, &self.main);
        let budget = Budget::of(main.sections.info.size() + main.sections.line.size());
        let names = Names::new(main, common.map(|elf| open(elf, &self.common)));
        let mut finder = Finder { names, budget, options, stats, frames: vec![Vec::new(); addresses.len()] };
        finder.run(&self.main, addresses);
        finder.frames
    }
}

struct Finder<'f, 'e> {
    names: Names<'e>,
    budget: Budget,
    options: &'f SymbolOptions,
    stats: &'f mut SymbolStats,
    frames: Vec<Vec<Frame>>,
}

impl Finder<'_, '_> {
    fn run(&mut self, index: &Index, addresses: &[u64]) {
        for (at, numbers) in index.units_of(addresses, &mut self.budget) {
            let wanted: Vec<u64> = numbers.iter().map(|&number| addresses[number as usize]).collect();
            if let Err(fault) = self.look_into(at, &wanted, &numbers) {
                self.stats.malformed += 1;
                if fault == Fault::Exhausted {
                    return;
                }
            }
        }
    }

    fn look_into(&mut self, at: UnitAt, wanted: &[u64], numbers: &[u32]) -> Result<(), Fault> {
        let too_large = at.size > self.options.max_unit as u64;
        self.stats.units_skipped += u64::from(too_large);
        let source = &mut self.names.main;
        // Of a unit that is too large the root is enough for lines.
        let size = if too_large { at.size.min(ROOT) } else { at.size };
        let unit = Rc::new(Unit::read(
            &source.sections,
            &mut source.abbreviations,
            at.offset,
            size,
            &mut self.budget,
        )?);
        let lines = match self.options.lines {
            true => Lines::read(&unit, &source.sections, self.options.max_unit)?,
            false => None,
        };
        let (places, of_lines) = match &lines {
            Some(lines) => lines.places(wanted, &mut self.budget),
            None => (vec![None; wanted.len()], Ok(())),
        };
        let (calls, of_calls) = if too_large || !self.options.inlined {
            (Calls { nodes: Vec::new(), chains: vec![Vec::new(); wanted.len()] }, Ok(()))
        } else {
            source.hold(unit.clone());
            walk::calls(&unit, wanted, &mut source.sections, &mut self.budget)
        };
        self.put_together(&unit, lines.as_ref(), &places, &calls, numbers);
        of_lines.and(of_calls)
    }

    fn put_together(
        &mut self,
        unit: &Unit,
        lines: Option<&Lines>,
        places: &[Option<Place>],
        calls: &Calls,
        numbers: &[u32],
    ) {
        let mut paths = Paths::new(lines);
        for ((&number, chain), place) in numbers.iter().zip(&calls.chains).zip(places) {
            let known = self.frames[number as usize].len();
            // Several units may claim an address; the one that knows most about it is right.
            if known > chain.len().max(usize::from(place.is_some())) {
                continue;
            }
            let chain = chain.iter().filter_map(|&node| calls.nodes.get(node as usize)).collect::<Vec<_>>();
            self.frames[number as usize] = self.chain(unit, &mut paths, *place, &chain);
        }
    }

    /// The frames of one address, from what holds it, outermost first.
    fn chain(
        &mut self,
        unit: &Unit,
        paths: &mut Paths<'_>,
        place: Option<Place>,
        nodes: &[&Node],
    ) -> Vec<Frame> {
        let mut place = place;
        let mut frames = Vec::with_capacity(nodes.len().max(1));
        for node in nodes.iter().rev() {
            let origin = self.names.of(&node.naming, unit, &mut self.budget);
            let mut frame = self.frame(unit, paths, place);
            (frame.name, frame.start_line) = (origin.name, origin.start_line);
            frames.push(frame);
            place = node.call.map(Place::from);
        }
        if nodes.is_empty() && place.is_some() {
            frames.push(self.frame(unit, paths, place));
        }
        frames
    }

    fn frame(&mut self, unit: &Unit, paths: &mut Paths<'_>, place: Option<Place>) -> Frame {
        let Some(place) = place.filter(|_| self.options.lines) else { return Frame::default() };
        let file = paths.get(place.file, unit, &mut self.names);
        Frame { file, line: place.line, column: place.column, ..Frame::default() }
    }
}

/// How much of a unit that is too large is read, for its root entry.
const ROOT: u64 = 64 << 10;

impl From<CallSite> for Place {
    fn from(call: CallSite) -> Place {
        Place { file: call.file, line: call.line, column: call.column }
    }
}
