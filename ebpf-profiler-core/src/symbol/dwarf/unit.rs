//! One compilation unit: its entries and the attributes of its root.

use std::rc::Rc;

use gimli::{
    self, Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugAddr, DebugAddrBase,
    DebugAddrIndex, DebugInfo, DebugInfoOffset, Encoding, LittleEndian, Range, Reader, UnitHeader,
};

use super::budget::{Budget, Fault};
use super::sections::{Bytes, Sections};

/// A unit in memory.
pub(super) struct Unit {
    /// Its offset in the section.
    pub(super) offset: u64,
    bytes: Vec<u8>,
    pub(super) abbreviations: Rc<Abbreviations>,
    pub(super) root: Root,
}

/// The attributes of the root entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Root {
    pub(super) span: Span,
    pub(super) line_program: Option<u64>,
    pub(super) folder: Option<Text>,
    address_base: u64,
    text_offsets_base: u64,
    range_lists_base: u64,
}

/// The address attributes of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    low: Option<Address>,
    high: Option<High>,
    ranges: Option<RangesAt>,
}

#[derive(Clone, Copy, Debug)]
enum Address {
    Direct(u64),
    Index(u64),
}

#[derive(Clone, Copy, Debug)]
enum High {
    Address(Address),
    Size(u64),
}

#[derive(Clone, Copy, Debug)]
enum RangesAt {
    Offset(u64),
    Index(u64),
}

/// The position of a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Text {
    Here(Box<[u8]>),
    Texts(u64),
    LineTexts(u64),
    /// In the supplementary file.
    Common(u64),
    Index(u64),
}

/// Parses the header of the unit at the start of `bytes`.
pub(super) fn header(bytes: &[u8]) -> Result<UnitHeader<Bytes<'_>>, Fault> {
    Ok(DebugInfo::new(bytes, LittleEndian).header_from_offset(DebugInfoOffset(0))?)
}

/// Parses the size of the unit at the start of `bytes`.
pub(super) fn length(bytes: &[u8]) -> Result<u64, Fault> {
    let mut bytes = Bytes::new(bytes, LittleEndian);
    let before = bytes.len();
    let (length, _) = bytes.read_initial_length()?;
    (length as u64).checked_add((before - bytes.len()) as u64).ok_or(Fault::Malformed)
}

/// Sets the length of the unit at the start of `bytes` to theirs.
pub(super) fn shorten(bytes: &mut [u8]) -> Result<(), Fault> {
    let (at, size) = if bytes.starts_with(&[0xff; 4]) { (4, 8) } else { (0, 4) };
    let rest = bytes.len().checked_sub(at + size).ok_or(Fault::Malformed)? as u64;
    bytes[at..at + size].copy_from_slice(&rest.to_le_bytes()[..size]);
    Ok(())
}

impl Unit {
    /// Reads the unit at `offset`, or the first `size` bytes of it.
    pub(super) fn read(
        sections: &Sections<'_>,
        abbreviations: &mut AbbreviationCache,
        offset: u64,
        size: u64,
        budget: &mut Budget,
    ) -> Result<Unit, Fault> {
        let mut bytes = sections.info.range(offset, size)?.into_owned();
        budget.spend(size / 8)?;
        shorten(&mut bytes)?;
        let parsed = header(&bytes)?;
        let abbreviations = abbreviations.get(sections, parsed.debug_abbrev_offset().0 as u64, budget)?;
        let root = Root::read(&parsed, &abbreviations)?;
        Ok(Unit { offset, bytes, abbreviations, root })
    }

    pub(super) fn header(&self) -> Result<UnitHeader<Bytes<'_>>, Fault> {
        header(&self.bytes)
    }

    /// Returns `true` if the unit contains an offset of the section.
    pub(super) fn holds(&self, offset: u64) -> bool {
        offset >= self.offset && offset - self.offset < self.bytes.len() as u64
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Root {
    /// Reads the root entry of a unit.
    pub(super) fn read(header: &UnitHeader<Bytes<'_>>, abbreviations: &Abbreviations) -> Result<Root, Fault> {
        let mut root = Root {
            text_offsets_base: first_after_header(header.encoding(), 8),
            range_lists_base: first_after_header(header.encoding(), 12),
            address_base: first_after_header(header.encoding(), 8),
            ..Root::default()
        };
        let mut entries = header.entries_raw(abbreviations, None)?;
        let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(root) };
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            root.take(attribute.name(), attribute.value());
        }
        Ok(root)
    }

    fn take(&mut self, name: gimli::DwAt, value: AttributeValue<Bytes<'_>>) {
        match (name, &value) {
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(at)) => {
                self.line_program = Some(at.0 as u64)
            }
            (gimli::DW_AT_comp_dir, _) => self.folder = Text::of(&value),
            (_, AttributeValue::DebugAddrBase(base)) => self.address_base = base.0 as u64,
            (_, AttributeValue::DebugStrOffsetsBase(base)) => self.text_offsets_base = base.0 as u64,
            (_, AttributeValue::DebugRngListsBase(base)) => self.range_lists_base = base.0 as u64,
            _ => self.span.take(name, &value),
        }
    }

    /// Calls `use_range` for each range of `span`; returns `true` if there was any.
    pub(super) fn each_range(
        &self,
        span: &Span,
        encoding: Encoding,
        sections: &mut Sections<'_>,
        budget: &mut Budget,
        mut use_range: impl FnMut(Range),
    ) -> Result<bool, Fault> {
        let mut any = false;
        let mut take = |range: Range| {
            // Linkers move dropped code to address 0.
            if range.begin < range.end && range.begin != 0 {
                any = true;
                use_range(range);
            }
        };
        if let Some(at) = span.ranges {
            self.each_of_list(at, encoding, sections, budget, &mut take)?;
        } else if let (Some(low), Some(high)) = (span.low, span.high) {
            let begin = self.address(low, encoding, sections)?;
            let end = match high {
                High::Address(high) => self.address(high, encoding, sections)?,
                High::Size(size) => begin.saturating_add(size),
            };
            take(Range { begin, end });
        }
        Ok(any)
    }

    fn address(&self, address: Address, encoding: Encoding, sections: &Sections<'_>) -> Result<u64, Fault> {
        let index = match address {
            Address::Direct(address) => return Ok(address),
            Address::Index(index) => DebugAddrIndex(index as usize),
        };
        let addresses = DebugAddr::from(Bytes::new(&sections.addresses, LittleEndian));
        Ok(addresses.get_address(encoding.address_size, DebugAddrBase(self.address_base as usize), index)?)
    }

    fn each_of_list(
        &self,
        at: RangesAt,
        encoding: Encoding,
        sections: &mut Sections<'_>,
        budget: &mut Budget,
        take: &mut dyn FnMut(Range),
    ) -> Result<(), Fault> {
        /// Sizes read in turn: lists are short, except those of whole units.
        const SIZES: [u64; 3] = [1 << 10, 64 << 10, 4 << 20];
        let base = self.span.low.map_or(Ok(0), |low| self.address(low, encoding, sections))?;
        let Sections { addresses, ranges, range_lists, .. } = sections;
        let window = if encoding.version <= 4 { ranges } else { range_lists };
        let offset = match at {
            RangesAt::Offset(offset) => offset,
            RangesAt::Index(index) => {
                let at = entry_at(self.range_lists_base, index, encoding)?;
                let relative = number(window.at(at, 8).ok_or(Fault::Malformed)?, encoding)?;
                self.range_lists_base.checked_add(relative).ok_or(Fault::Malformed)?
            }
        };
        for size in SIZES {
            let bytes = window.at(offset, size).ok_or(Fault::Malformed)?;
            let list = List { bytes, addresses, address_base: self.address_base, base, encoding };
            match list.collect(budget) {
                Err(Fault::Malformed) if bytes.len() as u64 >= size && size != SIZES[2] => {}
                ranges => {
                    ranges?.into_iter().for_each(take);
                    return Ok(());
                }
            }
        }
        Err(Fault::Malformed)
    }

    /// Returns the offset of the text with this index.
    pub(super) fn text_offset(
        &self,
        index: u64,
        encoding: Encoding,
        sections: &mut Sections<'_>,
    ) -> Option<u64> {
        let at = entry_at(self.text_offsets_base, index, encoding).ok()?;
        number(sections.text_offsets.at(at, 8)?, encoding).ok()
    }
}

/// A list of ranges.
struct List<'l> {
    bytes: &'l [u8],
    addresses: &'l [u8],
    address_base: u64,
    base: u64,
    encoding: Encoding,
}

impl List<'_> {
    fn collect(&self, budget: &mut Budget) -> Result<Vec<Range>, Fault> {
        let lists = gimli::RangeLists::new(
            gimli::DebugRanges::new(self.bytes, LittleEndian),
            gimli::DebugRngLists::new(self.bytes, LittleEndian),
        );
        let addresses = DebugAddr::from(Bytes::new(self.addresses, LittleEndian));
        let address_base = DebugAddrBase(self.address_base as usize);
        let start = gimli::RangeListsOffset(0);
        let mut list = lists.ranges(start, self.encoding, self.base, &addresses, address_base)?;
        let mut ranges = Vec::new();
        while let Some(range) = list.next()? {
            budget.spend(1)?;
            ranges.push(range);
        }
        Ok(ranges)
    }
}

impl Span {
    /// Stores an attribute that is about addresses.
    pub(super) fn take(&mut self, name: gimli::DwAt, value: &AttributeValue<Bytes<'_>>) {
        match name {
            gimli::DW_AT_low_pc => self.low = Address::of(value),
            gimli::DW_AT_high_pc => {
                self.high = match value {
                    AttributeValue::Udata(size) => Some(High::Size(*size)),
                    other => Address::of(other).map(High::Address),
                }
            }
            gimli::DW_AT_ranges => {
                self.ranges = match value {
                    AttributeValue::RangeListsRef(at) => Some(RangesAt::Offset(at.0 as u64)),
                    AttributeValue::DebugRngListsIndex(index) => Some(RangesAt::Index(index.0 as u64)),
                    _ => None,
                }
            }
            _ => {}
        }
    }
}

impl Address {
    fn of(value: &AttributeValue<Bytes<'_>>) -> Option<Address> {
        match value {
            AttributeValue::Addr(address) => Some(Address::Direct(*address)),
            AttributeValue::DebugAddrIndex(index) => Some(Address::Index(index.0 as u64)),
            _ => None,
        }
    }
}

impl Text {
    pub(super) fn of(value: &AttributeValue<Bytes<'_>>) -> Option<Text> {
        match value {
            AttributeValue::String(text) => Some(Text::Here(text.slice().into())),
            AttributeValue::DebugStrRef(at) => Some(Text::Texts(at.0 as u64)),
            AttributeValue::DebugLineStrRef(at) => Some(Text::LineTexts(at.0 as u64)),
            AttributeValue::DebugStrRefSup(at) => Some(Text::Common(at.0 as u64)),
            AttributeValue::DebugStrOffsetsIndex(index) => Some(Text::Index(index.0 as u64)),
            _ => None,
        }
    }
}

/// Returns the offset of entry `index` of a table of offsets.
fn entry_at(base: u64, index: u64, encoding: Encoding) -> Result<u64, Fault> {
    let entry = u64::from(encoding.format.word_size());
    index.checked_mul(entry).and_then(|at| at.checked_add(base)).ok_or(Fault::Malformed)
}

fn number(bytes: &[u8], encoding: Encoding) -> Result<u64, Fault> {
    Ok(Bytes::new(bytes, LittleEndian).read_offset(encoding.format)? as u64)
}

/// Returns the offset of the first entry of a unit's part of a table, the default of its base
/// attribute.
fn first_after_header(encoding: Encoding, size: u64) -> u64 {
    match (encoding.version, encoding.format) {
        (..=4, _) => 0,
        (_, gimli::Format::Dwarf32) => size,
        (_, gimli::Format::Dwarf64) => size + 8,
    }
}

/// The recently used abbreviation tables.
#[derive(Default)]
pub(super) struct AbbreviationCache {
    held: Vec<(u64, Rc<Abbreviations>)>,
}

impl AbbreviationCache {
    pub(super) fn get(
        &mut self,
        sections: &Sections<'_>,
        offset: u64,
        budget: &mut Budget,
    ) -> Result<Rc<Abbreviations>, Fault> {
        const HELD: usize = 8;
        if let Some((_, found)) = self.held.iter().find(|(at, _)| *at == offset) {
            return Ok(found.clone());
        }
        let found = Rc::new(read_abbreviations(sections, offset, budget)?);
        if self.held.len() == HELD {
            self.held.remove(0);
        }
        self.held.push((offset, found.clone()));
        Ok(found)
    }
}

/// Reads a table of abbreviations. It has no size field, so increasing sizes are tried.
fn read_abbreviations(
    sections: &Sections<'_>,
    offset: u64,
    budget: &mut Budget,
) -> Result<Abbreviations, Fault> {
    const SIZES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];
    let rest = sections.abbreviations.size().checked_sub(offset).ok_or(Fault::Malformed)?;
    for size in SIZES {
        let size = size.min(rest);
        budget.spend(size / 16)?;
        let bytes = sections.abbreviations.range(offset, size)?;
        let found = DebugAbbrev::new(&bytes, LittleEndian).abbreviations(DebugAbbrevOffset(0));
        if found.is_ok() || size == rest {
            return Ok(found?);
        }
    }
    Err(Fault::Malformed)
}
