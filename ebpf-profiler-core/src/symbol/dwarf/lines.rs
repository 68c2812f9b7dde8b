//! Source lines: one run of a unit's line program that keeps only the wanted addresses.

use std::sync::Arc;

use gimli::{
    ColumnType, DebugLine, DebugLineOffset, FileEntry, IncompleteLineProgram, LineProgramHeader, LineRow,
    LittleEndian,
};
use hashbrown::HashMap;

use super::budget::{Budget, Fault};
use super::names::Names;
use super::sections::{Bytes, Sections};
use super::unit::{self, Text, Unit};

/// A source location; the file is an index into the unit's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Maximum size of a line program, in bytes; typically a tenth of the size of the unit's entries.
const MAX_PROGRAM: u64 = 16 << 20;

/// The line program of a unit, in memory.
pub(super) struct Lines {
    bytes: Vec<u8>,
    address_size: u8,
}

impl Lines {
    /// Reads the program of a unit, if it has one.
    pub(super) fn read(unit: &Unit, sections: &Sections<'_>) -> Result<Option<Lines>, Fault> {
        let Some(offset) = unit.root.line_program else { return Ok(None) };
        let rest = sections.line.size().checked_sub(offset).ok_or(Fault::Malformed)?;
        let size = unit::length(&sections.line.range(offset, rest.min(12))?)?;
        if size > MAX_PROGRAM {
            return Err(Fault::Malformed);
        }
        let bytes = sections.line.range(offset, size)?.into_owned();
        let address_size = unit.header()?.encoding().address_size;
        Ok(Some(Lines { bytes, address_size }))
    }

    fn program(&self) -> Result<IncompleteLineProgram<Bytes<'_>>, Fault> {
        let section = DebugLine::new(&self.bytes, LittleEndian);
        Ok(section.program(DebugLineOffset(0), self.address_size, None, None)?)
    }

    /// Returns the locations of ascending `wanted` addresses; those found before a fault are kept.
    pub(super) fn places(
        &self,
        wanted: &[u64],
        budget: &mut Budget,
    ) -> (Vec<Option<Place>>, Result<(), Fault>) {
        let mut finder = Finder { wanted, places: vec![None; wanted.len()], before: None, next: 0 };
        let result = self.run(&mut finder, budget);
        (finder.places, result)
    }

    fn run(&self, finder: &mut Finder<'_>, budget: &mut Budget) -> Result<(), Fault> {
        budget.spend(self.bytes.len() as u64)?;
        let mut rows = self.program()?.rows();
        while let Some((_, row)) = rows.next_row()? {
            finder.take(row);
        }
        Ok(())
    }
}

/// Compares rows with wanted addresses.
struct Finder<'w> {
    wanted: &'w [u64],
    places: Vec<Option<Place>>,
    before: Option<(u64, Place)>,
    /// Index of the first wanted address not before the last row.
    next: usize,
}

impl Finder<'_> {
    fn take(&mut self, row: &LineRow) {
        let address = row.address();
        match self.before {
            Some((_, place)) => self.settle(address, place),
            // Linkers move the lines of dropped code to address 0.
            None if address == 0 => return,
            None => self.next = self.wanted.partition_point(|&wanted| wanted < address),
        }
        self.before = (!row.end_sequence()).then(|| (address, Place::of(row)));
    }

    /// Assigns `place` to the wanted addresses before `end`.
    fn settle(&mut self, end: u64, place: Place) {
        while self.wanted.get(self.next).is_some_and(|&wanted| wanted < end) {
            self.places[self.next].get_or_insert(place);
            self.next += 1;
        }
    }
}

impl Place {
    fn of(row: &LineRow) -> Place {
        let column = match row.column() {
            ColumnType::LeftEdge => 0,
            ColumnType::Column(column) => column.get() as u32,
        };
        Place { file: row.file_index(), line: row.line().map_or(0, |line| line.get() as u32), column }
    }
}

/// The paths of a unit's source files, built on demand.
pub(super) struct Paths<'l> {
    program: Option<IncompleteLineProgram<Bytes<'l>>>,
    known: HashMap<u64, Arc<str>>,
}

impl<'l> Paths<'l> {
    pub(super) fn new(lines: Option<&'l Lines>) -> Paths<'l> {
        Paths { program: lines.and_then(|lines| lines.program().ok()), known: HashMap::new() }
    }

    /// Returns the path of file number `file`; empty if there is none.
    pub(super) fn get(&mut self, file: u64, unit: &Unit, names: &mut Names<'_, '_>) -> Arc<str> {
        if let Some(known) = self.known.get(&file) {
            return known.clone();
        }
        let header = self.program.as_ref().map(|program| program.header());
        let entry = header.and_then(|header| Some((header.file(file)?, header)));
        let path = entry.and_then(|(entry, header)| path(entry, header, unit, names)).unwrap_or_default();
        let path = names.texts.share(&path);
        self.known.insert(file, path.clone());
        path
    }
}

/// Joins the unit's folder, the file's folder and its name; an absolute part replaces those before
/// it.
fn path(
    entry: &FileEntry<Bytes<'_>>,
    header: &LineProgramHeader<Bytes<'_>>,
    unit: &Unit,
    names: &mut Names<'_, '_>,
) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    if let Some(folder) = &unit.root.folder {
        names.push_text(&mut path, folder, unit);
    }
    let mut add = |text: &Text| {
        let mut next = Vec::new();
        names.push_text(&mut next, text, unit)?;
        join(&mut path, &next);
        Some(())
    };
    // Folder 0 is the unit's.
    if entry.directory_index() != 0
        && let Some(folder) = entry.directory(header).and_then(|folder| Text::of(&folder))
    {
        add(&folder)?;
    }
    add(&Text::of(&entry.path_name())?)?;
    Some(path)
}

fn join(path: &mut Vec<u8>, next: &[u8]) {
    if next.starts_with(b"/") {
        path.clear();
    } else if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(next);
}
