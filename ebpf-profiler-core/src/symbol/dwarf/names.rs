//! Names of functions, found through references between entries.
//!
//! ```text
//!   inlined call ──DW_AT_abstract_origin──► function ──DW_AT_specification──► declaration: the linker's name
//! ```
//!
//! Each arrow may lead into another unit or into the supplementary file.

use std::rc::Rc;

use gimli::{AttributeValue, UnitOffset};
use hashbrown::HashMap;

use super::budget::{Budget, Fault};
use super::index::Index;
use super::sections::{Bytes, Sections};
use super::unit::{AbbreviationCache, Text, Unit};
use crate::symbol::demangle::{Name, Texts};

/// A function's name and the line of its declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) name: Option<Name>,
    pub(super) start_line: u32,
}

/// One file with debug information.
pub(super) struct Source<'e> {
    pub(super) sections: Sections<'e>,
    pub(super) index: &'e Index,
    pub(super) abbreviations: AbbreviationCache,
    /// Recently used units, the last used at the end.
    units: Vec<Rc<Unit>>,
    max_unit: usize,
}

/// The position of an entry that another refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reference {
    /// In this file.
    Own(u64),
    /// In the supplementary file.
    Common(u64),
}

/// The attributes of an entry that lead to its function's name.
#[derive(Clone, Debug, Default)]
pub(super) struct Naming {
    linker: Option<Text>,
    plain: Option<Text>,
    next: Option<Reference>,
    line: u32,
}

impl Naming {
    /// Stores an attribute that is about the name.
    pub(super) fn take(&mut self, name: gimli::DwAt, value: &AttributeValue<Bytes<'_>>, unit: u64) {
        match name {
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => self.linker = Text::of(value),
            gimli::DW_AT_name => self.plain = Text::of(value),
            gimli::DW_AT_decl_line => self.line = value.udata_value().unwrap_or(0) as u32,
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                self.next = Reference::of(value, unit);
            }
            _ => {}
        }
    }
}

impl Reference {
    fn of(value: &AttributeValue<Bytes<'_>>, unit: u64) -> Option<Reference> {
        match value {
            AttributeValue::UnitRef(at) => Some(Reference::Own(unit.checked_add(at.0 as u64)?)),
            AttributeValue::DebugInfoRef(at) => Some(Reference::Own(at.0 as u64)),
            AttributeValue::DebugInfoRefSup(at) => Some(Reference::Common(at.0 as u64)),
            _ => None,
        }
    }
}

impl<'e> Source<'e> {
    pub(super) fn new(sections: Sections<'e>, index: &'e Index, max_unit: usize) -> Source<'e> {
        let abbreviations = AbbreviationCache::default();
        Source { sections, index, abbreviations, units: Vec::new(), max_unit }
    }

    /// Caches a unit for its names, besides a few others: at least the one being read and one that
    /// it refers to.
    pub(super) fn hold(&mut self, unit: Rc<Unit>) {
        self.units.push(unit);
        let held = |units: &[Rc<Unit>]| units.iter().map(|unit| unit.bytes()).sum::<usize>();
        while self.units.len() > 2 && held(&self.units) > self.max_unit / 8 {
            self.units.remove(0);
        }
    }

    /// Returns the unit that contains an offset of the section.
    fn unit_of(&mut self, offset: u64, budget: &mut Budget) -> Result<Rc<Unit>, Fault> {
        if let Some(at) = self.units.iter().rposition(|unit| unit.holds(offset)) {
            let unit = self.units.remove(at);
            self.units.push(unit.clone());
            return Ok(unit);
        }
        let at = self.index.unit_of(offset).ok_or(Fault::Malformed)?;
        if at.size > self.max_unit as u64 {
            return Err(Fault::Malformed);
        }
        let unit = Rc::new(Unit::read(&self.sections, &mut self.abbreviations, at.offset, at.size, budget)?);
        self.hold(unit.clone());
        Ok(unit)
    }

    /// Reads the naming attributes of the entry at `offset`.
    fn naming(&mut self, offset: u64, budget: &mut Budget) -> Result<(Naming, Rc<Unit>), Fault> {
        budget.spend(16)?;
        let unit = self.unit_of(offset, budget)?;
        let header = unit.header()?;
        let at = UnitOffset((offset - unit.offset) as usize);
        let mut entries = header.entries_raw(&unit.abbreviations, Some(at))?;
        let abbreviation = entries.read_abbreviation()?.ok_or(Fault::Malformed)?;
        let mut naming = Naming::default();
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            naming.take(attribute.name(), &attribute.value(), unit.offset);
        }
        Ok((naming, unit))
    }

    /// Reads a text that an entry of `unit` refers to, unless it is in the supplementary file.
    fn text<'t>(&'t mut self, text: &'t Text, unit: &Unit) -> Option<&'t [u8]> {
        let sections = &mut self.sections;
        match text {
            Text::Here(text) => Some(text),
            Text::Texts(at) => sections.texts.text(*at),
            Text::LineTexts(at) => sections.line_texts.text(*at),
            Text::Index(index) => {
                let encoding = unit.header().ok()?.encoding();
                let at = unit.root.text_offset(*index, encoding, sections)?;
                sections.texts.text(at)
            }
            Text::Common(_) => None,
        }
    }
}

/// The names of functions, each resolved once.
pub(super) struct Names<'e, 't> {
    pub(super) main: Source<'e>,
    common: Option<Source<'e>>,
    pub(super) texts: &'t mut Texts,
    known: HashMap<Reference, Origin>,
}

/// Maximum number of references followed.
const MAX_HOPS: usize = 8;

impl<'e, 't> Names<'e, 't> {
    pub(super) fn new(main: Source<'e>, common: Option<Source<'e>>, texts: &'t mut Texts) -> Names<'e, 't> {
        Names { main, common, texts, known: HashMap::new() }
    }

    /// Appends a text that an entry of `unit`, in the main file, refers to.
    pub(super) fn push_text(&mut self, to: &mut Vec<u8>, text: &Text, unit: &Unit) -> Option<()> {
        to.extend_from_slice(find_text(&mut self.main, self.common.as_mut(), text, unit, false)?);
        Some(())
    }

    /// Returns the name of the function that an entry of `unit` describes.
    pub(super) fn of(&mut self, naming: &Naming, unit: &Unit, budget: &mut Budget) -> Origin {
        let mut origin = self.own(naming, unit, false);
        if let (None, Some(next)) = (&origin.name, naming.next) {
            let found = self.follow(next, budget);
            origin.name = found.name;
            if origin.start_line == 0 {
                origin.start_line = found.start_line;
            }
        }
        origin
    }

    fn follow(&mut self, first: Reference, budget: &mut Budget) -> Origin {
        if let Some(known) = self.known.get(&first) {
            return known.clone();
        }
        let origin = self.look_for(first, budget).unwrap_or_default();
        self.known.insert(first, origin.clone());
        origin
    }

    fn look_for(&mut self, first: Reference, budget: &mut Budget) -> Result<Origin, Fault> {
        let (mut next, mut line, mut plain) = (Some(first), 0, None);
        let mut in_common = false;
        for _ in 0..MAX_HOPS {
            let Some(reference) = next else { break };
            in_common |= matches!(reference, Reference::Common(_));
            let (Reference::Own(at) | Reference::Common(at)) = reference;
            let source = if in_common { self.common.as_mut() } else { Some(&mut self.main) };
            let (naming, unit) = source.ok_or(Fault::Malformed)?.naming(at, budget)?;
            let own = self.own(&naming, &unit, in_common);
            line = if line == 0 { own.start_line } else { line };
            if naming.linker.is_some() {
                return Ok(Origin { name: own.name, start_line: line });
            }
            plain = plain.or(own.name);
            next = naming.next;
        }
        Ok(Origin { name: plain, start_line: line })
    }

    fn own(&mut self, naming: &Naming, unit: &Unit, in_common: bool) -> Origin {
        let Names { main, common, texts, .. } = self;
        let text = naming.linker.as_ref().or(naming.plain.as_ref());
        let name = text.and_then(|text| find_text(main, common.as_mut(), text, unit, in_common));
        Origin { name: name.map(|name| texts.name(name)), start_line: naming.line }
    }
}

/// Reads a text that an entry of `unit` refers to; `in_common` is `true` for units of the
/// supplementary file.
fn find_text<'t>(
    main: &'t mut Source<'_>,
    common: Option<&'t mut Source<'_>>,
    text: &'t Text,
    unit: &Unit,
    in_common: bool,
) -> Option<&'t [u8]> {
    match text {
        Text::Common(at) => common?.sections.texts.text(*at),
        own if in_common => common?.text(own, unit),
        own => main.text(own, unit),
    }
}
