//! Source lines and inlined functions, from debug information.
//!
//! ```text
//!   addresses ──► Index: which units ──► for each unit, one pass over its entries ──► chains of calls
//!                                        and one run of its line program         ──► places
//! ```
//!
//! Addresses are sorted and looked up in batches, so each unit is read and passed over once. Memory
//! holds one unit at a time, however large the file is; only the [`Index`] is cached.
//!
//! # Why not addr2line
//!
//! The crate addr2line does the same for one address after another. It takes sections as slices, so
//! a file is in memory as a whole, and keeps what it has parsed. Names of 2,271 addresses of a
//! program of 58 MB took 57 MB beside the file; here 2,270 addresses take 10 MB in all, in 0.27 s
//! of CPU time for 9,619 functions (addr2line: 0.18 s for 3,151, the addresses being function
//! starts). A profiler has hundreds of such files, written by any user, so memory and
//! [work](Budget) are bounded here.

mod budget;
mod index;
mod lines;
mod names;
mod sections;
mod unit;
mod walk;

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Symbol;
use super::demangle::Texts;
use super::options::SymbolOptions;
use super::stats::SymbolStats;
use crate::elf::{EXECUTABLE, Elf};
use budget::{Budget, Fault};
pub(super) use index::Index;
use index::UnitAt;
use lines::{Lines, Paths, Place};
use names::{Names, Origin, Source};
use sections::Sections;
pub(super) use sections::{File, Inflated};
use unit::Unit;
use walk::{CallSite, Calls, Node};

/// Returns `true` if a file has debug information.
pub(super) fn has_any(elf: &Elf) -> bool {
    sections::has_any(elf)
}

/// The indexes of a file and of its supplementary file.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    main: Index,
    common: Index,
    /// `true` once the budget was exhausted, so that later profiles skip the file.
    exhausted: AtomicBool,
}

impl Indexes {
    /// Indexes the units of a file.
    pub(super) fn build(
        main: File<'_>,
        common: Option<File<'_>>,
        options: &SymbolOptions,
        stats: &mut SymbolStats,
    ) -> Indexes {
        let mut index = |file: File<'_>| {
            let mut sections = Sections::open(file, options.max_inflated, &mut stats.sections_skipped);
            let mut budget = Budget::of(sections.info.size());
            let max = options.index_budget();
            Index::build(&mut sections, first_code(file.elf), max, &mut budget, &mut stats.malformed)
        };
        let (main, common) = (index(main), common.map(index).unwrap_or_default());
        Indexes { main, common, exhausted: AtomicBool::new(false) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.main.bytes() + self.common.bytes()
    }

    /// The functions of each of `addresses`, ascending: innermost first.
    pub(super) fn functions(
        &self,
        main: File<'_>,
        common: Option<File<'_>>,
        addresses: &[u64],
        options: &SymbolOptions,
        texts: &mut Texts,
        stats: &mut SymbolStats,
    ) -> Vec<Vec<Symbol>> {
        if self.exhausted.load(Ordering::Relaxed) {
            return vec![Vec::new(); addresses.len()];
        }
        // What is skipped was counted when the index was built.
        let open = |file, index| {
            Source::new(Sections::open(file, options.max_inflated, &mut 0), index, options.max_unit)
        };
        let main = open(main, &self.main);
        let budget = Budget::of(main.sections.info.size() + main.sections.line.size());
        let names = Names::new(main, common.map(|file| open(file, &self.common)), texts);
        let functions = vec![Vec::new(); addresses.len()];
        let mut finder = Finder { names, budget, options, stats, functions };
        let exhausted = finder.run(&self.main, addresses).is_err();
        self.exhausted.store(exhausted, Ordering::Relaxed);
        finder.functions
    }
}

/// The first address of code, or more than any address where there is no code.
fn first_code(elf: &Elf) -> u64 {
    let code =
        elf.sections().iter().filter(|section| section.flags & EXECUTABLE != 0 && section.address != 0);
    code.map(|section| section.address).min().unwrap_or(u64::MAX)
}

struct Finder<'f, 'e> {
    names: Names<'e, 'f>,
    budget: Budget,
    options: &'f SymbolOptions,
    stats: &'f mut SymbolStats,
    functions: Vec<Vec<Symbol>>,
}

impl Finder<'_, '_> {
    fn run(&mut self, index: &Index, addresses: &[u64]) -> Result<(), Fault> {
        for (at, numbers) in index.units_of(addresses, &mut self.budget) {
            let wanted: Vec<u64> = numbers.iter().map(|&number| addresses[number as usize]).collect();
            if let Err(fault) = self.look_into(at, &wanted, &numbers) {
                self.stats.malformed += 1;
                if fault == Fault::Exhausted {
                    return Err(fault);
                }
            }
        }
        Ok(())
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
            true => Lines::read(&unit, &source.sections)?,
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

    fn put_together<'u>(
        &mut self,
        unit: &'u Unit,
        lines: Option<&'u Lines>,
        places: &[Option<Place>],
        calls: &Calls,
        numbers: &[u32],
    ) {
        let mut of_unit = OfUnit { unit, paths: Paths::new(lines), origins: vec![None; calls.nodes.len()] };
        for ((&number, chain), place) in numbers.iter().zip(&calls.chains).zip(places) {
            let known = self.functions[number as usize].len();
            // Several units may claim an address; the one that knows most about it is right.
            if known <= chain.len().max(usize::from(place.is_some())) {
                self.functions[number as usize] = self.chain(&mut of_unit, *place, chain, &calls.nodes);
            }
        }
    }

    /// Builds the functions of one address from its chain of nodes, outermost first.
    fn chain(
        &mut self,
        of: &mut OfUnit<'_>,
        place: Option<Place>,
        chain: &[u32],
        nodes: &[Node],
    ) -> Vec<Symbol> {
        let mut place = place;
        let mut functions = Vec::with_capacity(chain.len().max(1));
        for &number in chain.iter().rev() {
            let Some(node) = nodes.get(number as usize) else { continue };
            let origin = self.origin(of, number, node);
            let mut function = self.at(of, place);
            function.start_line = origin.start_line;
            if let Some(name) = origin.name {
                (function.function, function.system_name) = (name.function, name.system);
            }
            functions.push(function);
            place = node.call.map(Place::from);
        }
        if chain.is_empty() && place.is_some() {
            functions.push(self.at(of, place));
        }
        functions
    }

    /// Creates an unnamed function at a source location.
    fn at(&mut self, of: &mut OfUnit<'_>, place: Option<Place>) -> Symbol {
        let Some(place) = place.filter(|_| self.options.lines) else { return Symbol::default() };
        let file = of.paths.get(place.file, of.unit, &mut self.names);
        Symbol { file, line: place.line, column: place.column, ..Symbol::default() }
    }

    fn origin(&mut self, of: &mut OfUnit<'_>, number: u32, node: &Node) -> Origin {
        if let Some(Some(known)) = of.origins.get(number as usize) {
            return known.clone();
        }
        let mut origin = self.names.of(&node.naming, of.unit, &mut self.budget);
        if origin.name.is_none() && node.call.is_some() {
            origin.name = Some(self.names.texts.name(b"[inlined]"));
        }
        if let Some(known) = of.origins.get_mut(number as usize) {
            *known = Some(origin.clone());
        }
        origin
    }
}

/// Cached paths and names of a unit.
struct OfUnit<'u> {
    unit: &'u Unit,
    paths: Paths<'u>,
    /// The name of each node, once resolved.
    origins: Vec<Option<Origin>>,
}

/// Bytes read of a unit above the size limit, for its root entry.
const ROOT: u64 = 64 << 10;

impl From<CallSite> for Place {
    fn from(call: CallSite) -> Place {
        Place { file: call.file, line: call.line, column: call.column }
    }
}
