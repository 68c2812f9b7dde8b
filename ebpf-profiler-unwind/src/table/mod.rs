//! The table itself: how it is built, and how it is read.

use ebpf_profiler_core::elf::{Arch, Elf, ElfError};
use ebpf_profiler_core::unwind::{Compiled, UnwindCompiler};

use ebpf_programs::abi::table::Rule as RawRule;

use crate::compile::tables;
use crate::rule::Rule;

pub(crate) mod rules;

pub(crate) mod build;

mod image;

mod directory;

mod view;

mod validate;

#[cfg(test)]
mod tests;

use build::Builder;
use rules::Packed;
pub use validate::{Invalid, validate};
use view::View;

/// The unwind table of one file, to look at.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_unwind::Table;
///
/// let bytes = std::fs::read("/proc/self/exe")?;
/// let table = Table::from_elf(&bytes)?;
/// let row = table.rows().find(|row| row.rule.is_described()).ok_or("no rows")?;
/// assert_eq!(table.rule(row.address), Some(row.rule));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    compiled: Compiled,
    arch: Arch,
}

/// From which address on which rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// A virtual address of the file.
    pub address: u64,
    /// The rule from there on.
    pub rule: Rule,
}

impl Table {
    /// The table of the ELF file that `bytes` are.
    ///
    /// # Errors
    ///
    /// When it isn't an ELF file that can be read. A file without unwind data has an empty table.
    pub fn from_elf(bytes: &[u8]) -> Result<Table, ElfError> {
        Table::of(&Elf::open(std::io::Cursor::new(bytes.to_vec()))?)
    }

    /// The table of an ELF file of which only what is needed gets read.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn of(elf: &Elf) -> Result<Table, ElfError> {
        Ok(Table { compiled: tables().compile(elf)?, arch: elf.arch() })
    }

    /// A table that was built before.
    ///
    /// # Errors
    ///
    /// When it isn't laid out as a table should be.
    pub fn from_image(image: Vec<u8>, arch: Arch) -> Result<Table, Invalid> {
        validate(&image)?;
        Ok(Table { compiled: Compiled::new(image), arch })
    }

    /// A table that knows rules for single addresses only, which are in order and not far apart.
    pub(crate) fn of_single_rows(rows: &[(u64, RawRule)], arch: Arch) -> Table {
        let mut builder = Builder::new(rows.first().map_or(0, |row| row.0));
        for &(address, rule) in rows {
            builder.push(address, Packed::of(&rule));
            builder.push(address.saturating_add(1), Packed::NO_DATA);
        }
        Table { compiled: Compiled::new(builder.finish().image), arch }
    }

    /// The rule for the instruction at `address`; `None` where there is no unwind data.
    pub fn rule(&self, address: u64) -> Option<Rule> {
        let number = self.view()?.find(address)?;
        Some(self.at(number)).filter(Rule::is_described)
    }

    /// Whether a row begins at `address`.
    pub(crate) fn begins(&self, address: u64) -> bool {
        self.view().is_some_and(|view| view.begins(address))
    }

    /// All rows by their addresses; gaps in the unwind data are rows, too.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let rows = self.view().into_iter().flat_map(|view| view.rows());
        rows.map(|(address, number)| Row { address, rule: self.at(number) })
    }

    /// The different rules.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        let view = self.view();
        let numbers = 0..view.map_or(0, |view| view.header().rules);
        numbers.map(|number| self.at(number as u16))
    }

    /// The table as bytes, laid out as [`ebpf_programs::abi::table`] says.
    pub fn image(&self) -> &[u8] {
        &self.compiled.image
    }

    /// Rows of the file that a rule can't hold.
    pub fn unsupported(&self) -> u32 {
        self.compiled.unsupported
    }

    /// Pieces of the file's unwind data that made no sense, and sections packed in a way that isn't known (zstd).
    pub fn malformed(&self) -> u32 {
        self.compiled.malformed
    }

    fn view(&self) -> Option<View<'_>> {
        View::new(&self.compiled.image)
    }

    fn at(&self, number: u16) -> Rule {
        let raw = self.view().and_then(|view| view.rule(number)).unwrap_or_default();
        Rule::new(raw, self.arch)
    }
}
