//! An index from addresses to units.
//!
//! This is all that is cached of a file's debug information: 16 bytes per unit and 12 per range of
//! code.

use gimli::{DebugAranges, Encoding, LittleEndian, Range, UnitType};
use hashbrown::HashSet;

use super::budget::{Budget, Fault};
use super::sections::Sections;
use super::unit::{self, AbbreviationCache, Root};
use crate::symbol::data::Data;
use crate::symbol::window::Window;

/// The units of a file.
#[derive(Debug, Default)]
pub(crate) struct Index {
    units: Vec<UnitAt>,
    stretches: Vec<Stretch>,
    /// The address that ranges are relative to.
    base: u64,
    /// Maximum number of ranges.
    most: usize,
}

/// The position of a unit in its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitAt {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// A range of code of a unit.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    begin: u32,
    size: u32,
    unit: u32,
}

/// Maximum number of bytes read of `.debug_aranges`.
const MAX_ARANGES: u64 = 32 << 20;

/// Bytes of a unit read for its root entry: few, and more if that is not enough.
const HEADS: [u64; 2] = [512, 64 << 10];

impl Index {
    /// Indexes the units of a file whose code begins at `base`, in at most `max_bytes`; the rest is
    /// left out. `malformed` counts invalid units.
    pub(super) fn build(
        sections: &mut Sections<'_>,
        base: u64,
        max_bytes: usize,
        budget: &mut Budget,
        malformed: &mut u64,
    ) -> Index {
        let units = units(&sections.info, max_bytes / 2 / size_of::<UnitAt>());
        let most = max_bytes / 2 / size_of::<Stretch>();
        let mut index = Index { units, stretches: Vec::new(), base, most };
        let listed = index.add_listed(&sections.aranges).unwrap_or_else(|_| {
            *malformed += 1;
            HashSet::new()
        });
        let mut abbreviations = AbbreviationCache::default();
        for number in 0..index.units.len() as u32 {
            if listed.contains(&number) {
                continue;
            }
            match index.add_unit(number, sections, &mut abbreviations, budget) {
                Ok(()) => {}
                Err(Fault::Malformed) => *malformed += 1,
                Err(Fault::Exhausted) => break,
            }
        }
        *malformed += u64::from(index.stretches.len() == most);
        index.stretches.shrink_to_fit();
        index
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.units) + size_of_val(&*self.stretches)
    }

    /// Returns the unit that contains an offset of the section.
    pub(super) fn unit_of(&self, offset: u64) -> Option<UnitAt> {
        let behind = self.units.partition_point(|unit| unit.offset <= offset);
        let unit = *self.units.get(behind.checked_sub(1)?)?;
        (offset - unit.offset < unit.size).then_some(unit)
    }

    /// Returns each unit that contains some of the ascending `addresses`, with their ascending
    /// indices.
    pub(super) fn units_of(&self, addresses: &[u64], budget: &mut Budget) -> Vec<(UnitAt, Vec<u32>)> {
        let mut pairs = Vec::new();
        for stretch in &self.stretches {
            let begin = self.base + u64::from(stretch.begin);
            let end = begin + u64::from(stretch.size);
            let from = addresses.partition_point(|&address| address < begin);
            let held = addresses[from..].partition_point(|&address| address < end);
            if budget.spend(held as u64).is_err() {
                break;
            }
            pairs.extend((from..from + held).map(|number| (stretch.unit, number as u32)));
        }
        pairs.sort_unstable();
        pairs.dedup();
        let of_unit = |group: &[(u32, u32)]| {
            let unit = *self.units.get(group.first()?.0 as usize)?;
            Some((unit, group.iter().map(|&(_, number)| number).collect()))
        };
        pairs.chunk_by(|a, b| a.0 == b.0).filter_map(of_unit).collect()
    }

    /// Adds the ranges of `.debug_aranges`; returns the numbers of the units that it lists.
    fn add_listed(&mut self, aranges: &Data<'_>) -> Result<HashSet<u32>, Fault> {
        let bytes = aranges.range(0, aranges.size().min(MAX_ARANGES))?;
        let mut sets = DebugAranges::new(&bytes, LittleEndian).headers();
        let mut listed = HashSet::new();
        while let Some(set) = sets.next()? {
            let offset = set.debug_info_offset().0 as u64;
            let Ok(unit) = self.units.binary_search_by_key(&offset, |unit| unit.offset) else { continue };
            let mut entries = set.entries();
            while let Ok(Some(entry)) = entries.next() {
                if self.add(unit as u32, entry.range()) {
                    listed.insert(unit as u32);
                }
            }
        }
        Ok(listed)
    }

    fn add_unit(
        &mut self,
        number: u32,
        sections: &mut Sections<'_>,
        abbreviations: &mut AbbreviationCache,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        let unit = self.units[number as usize];
        let read = |head| read_root(sections, abbreviations, unit, head, budget);
        let (root, encoding) =
            HEADS.into_iter().map(read).find(Result::is_ok).unwrap_or(Err(Fault::Malformed))?;
        let mut found = Vec::new();
        root.each_range(&root.span, encoding, sections, budget, |range| found.push(range))?;
        for range in found {
            self.add(number, range);
        }
        Ok(())
    }

    fn add(&mut self, unit: u32, range: Range) -> bool {
        let (Some(begin), true) = (range.begin.checked_sub(self.base), range.begin < range.end) else {
            return false;
        };
        let (Ok(begin), Ok(size)) = (begin.try_into(), (range.end - range.begin).try_into()) else {
            return false;
        };
        let fits = self.stretches.len() < self.most;
        if fits {
            self.stretches.push(Stretch { begin, size, unit });
        }
        fits
    }
}

/// Returns the units of a section, up to `most`; an invalid unit ends the list.
fn units(info: &Data<'_>, most: usize) -> Vec<UnitAt> {
    /// The longest form of a unit length, shorter than any unit.
    const LENGTH: u64 = 12;
    let mut heads = Window::new(info.view(), 64);
    let (mut units, mut offset) = (Vec::new(), 0);
    while let Some(Ok(size)) = heads.at(offset, LENGTH).map(unit::length) {
        let Some(end) = offset.checked_add(size).filter(|&end| end <= info.size()) else { break };
        if size < LENGTH || units.len() == most {
            break;
        }
        units.push(UnitAt { offset, size });
        offset = end;
    }
    units
}

/// Reads the root entry of a unit from the first `head` bytes of it.
fn read_root(
    sections: &Sections<'_>,
    abbreviations: &mut AbbreviationCache,
    unit: UnitAt,
    head: u64,
    budget: &mut Budget,
) -> Result<(Root, Encoding), Fault> {
    let mut bytes = sections.info.range(unit.offset, unit.size.min(head))?.into_owned();
    unit::shorten(&mut bytes)?;
    let header = unit::header(&bytes)?;
    if !matches!(header.type_(), UnitType::Compilation | UnitType::Skeleton(_)) {
        return Ok((Root::default(), header.encoding()));
    }
    let known = abbreviations.get(sections, header.debug_abbrev_offset().0 as u64, budget)?;
    Ok((Root::read(&header, &known)?, header.encoding()))
}
