//! One pass over the entries of a unit that finds the functions, inlined ones included, of the
//! wanted addresses.
//!
//! The pass keeps a stack per wanted address and none for the tree, so entries can be nested to any
//! depth.

use std::rc::Rc;

use gimli::{AttributeValue, Encoding, EntriesRaw, Range};

use super::budget::{Budget, Fault};
use super::names::Naming;
use super::sections::{Bytes, Sections};
use super::unit::{Span, Unit};

/// The functions that contain the wanted addresses.
#[derive(Default)]
pub(super) struct Calls {
    pub(super) nodes: Vec<Node>,
    /// For each wanted address, the nodes that contain it, outermost first.
    pub(super) chains: Vec<Vec<u32>>,
}

/// A function, or an inlined call.
#[derive(Default)]
pub(super) struct Node {
    pub(super) naming: Naming,
    /// The call site if it was inlined.
    pub(super) call: Option<CallSite>,
    depth: isize,
}

/// The call site of an inlined function.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallSite {
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Maximum length of a chain.
const MAX_CHAIN: usize = 256;

/// Finds the functions that contain the ascending `wanted` addresses.
///
/// Results found before a fault are kept.
pub(super) fn calls(
    unit: &Rc<Unit>,
    wanted: &[u64],
    sections: &mut Sections<'_>,
    budget: &mut Budget,
) -> (Calls, Result<(), Fault>) {
    let calls = Calls { nodes: Vec::new(), chains: vec![Vec::new(); wanted.len()] };
    let mut walk = Walk { unit, wanted, sections, budget, calls };
    let result = walk.run();
    (walk.calls, result)
}

struct Walk<'w, 'e> {
    unit: &'w Unit,
    wanted: &'w [u64],
    sections: &'w mut Sections<'e>,
    budget: &'w mut Budget,
    calls: Calls,
}

/// The relevant attributes of an entry.
#[derive(Default)]
struct Entry {
    span: Span,
    node: Node,
}

impl Walk<'_, '_> {
    fn run(&mut self) -> Result<(), Fault> {
        let unit = self.unit;
        let header = unit.header()?;
        let mut entries = header.entries_raw(&unit.abbreviations, None)?;
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let attributes = abbreviation.attributes();
            match abbreviation.tag() {
                gimli::DW_TAG_subprogram => {
                    self.take(&mut entries, attributes, depth, false, header.encoding())?
                }
                gimli::DW_TAG_inlined_subroutine => {
                    self.take(&mut entries, attributes, depth, true, header.encoding())?;
                }
                _ => entries.skip_attributes(attributes)?,
            }
        }
        Ok(())
    }

    fn take<'u>(
        &mut self,
        entries: &mut EntriesRaw<'_, Bytes<'u>>,
        attributes: &[gimli::AttributeSpecification],
        depth: isize,
        inlined: bool,
        encoding: Encoding,
    ) -> Result<(), Fault> {
        let mut entry = Entry::default();
        entry.node.depth = depth;
        entry.node.call = inlined.then(CallSite::default);
        for spec in attributes {
            let attribute = entries.read_attribute(*spec)?;
            entry.take(attribute.name(), &attribute.value(), self.unit.offset);
        }
        self.place(entry, encoding)
    }

    /// Adds an entry to the chains of the addresses that it contains.
    fn place(&mut self, entry: Entry, encoding: Encoding) -> Result<(), Fault> {
        let mut held: Vec<(usize, usize)> = Vec::new();
        let wanted = self.wanted;
        self.unit.root.each_range(&entry.span, encoding, self.sections, self.budget, |range| {
            held.extend(numbers(wanted, range));
        })?;
        if held.is_empty() {
            return Ok(());
        }
        let number = self.calls.nodes.len() as u32;
        for (from, to) in held {
            self.budget.spend((to - from) as u64)?;
            for chain in &mut self.calls.chains[from..to] {
                push(chain, number, &entry.node, &self.calls.nodes);
            }
        }
        self.calls.nodes.push(entry.node);
        Ok(())
    }
}

/// Returns the indices of the wanted addresses in a range, if there are any.
fn numbers(wanted: &[u64], range: Range) -> Option<(usize, usize)> {
    let from = wanted.partition_point(|&address| address < range.begin);
    let held = wanted[from..].partition_point(|&address| address < range.end);
    (held > 0).then_some((from, from + held))
}

/// Adds a node to a chain: a function starts it over, an inlined call goes below the innermost node
/// that contains it.
fn push(chain: &mut Vec<u32>, number: u32, node: &Node, nodes: &[Node]) {
    if node.call.is_none() {
        chain.clear();
    } else if chain.is_empty() || chain.len() == MAX_CHAIN {
        return;
    }
    let above = |&other: &u32| nodes.get(other as usize).is_some_and(|other| other.depth < node.depth);
    while chain.last().is_some_and(|last| !above(last)) {
        chain.pop();
    }
    chain.push(number);
}

impl Entry {
    fn take(&mut self, name: gimli::DwAt, value: &AttributeValue<Bytes<'_>>, unit: u64) {
        let Some(call) = &mut self.node.call else {
            self.span.take(name, value);
            self.node.naming.take(name, value, unit);
            return;
        };
        match (name, value) {
            (gimli::DW_AT_call_file, AttributeValue::FileIndex(file)) => call.file = *file,
            (gimli::DW_AT_call_line, _) => call.line = value.udata_value().unwrap_or(0) as u32,
            (gimli::DW_AT_call_column, _) => call.column = value.udata_value().unwrap_or(0) as u32,
            _ => {
                self.span.take(name, value);
                self.node.naming.take(name, value, unit);
            }
        }
    }
}
