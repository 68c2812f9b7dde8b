//! Tables: building and reading.

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

/// The unwind table of an ELF file.
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

/// A row: its rule is in effect from its address up to that of the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// First virtual address in the file to which the rule applies.
    pub address: u64,
    /// Rule from there on.
    pub rule: Rule,
}

impl Table {
    /// Builds the table of an ELF file from its bytes. A file without unwind data has an empty table.
    ///
    /// # Errors
    ///
    /// Fails if `bytes` is not an ELF file, or its headers cannot be parsed.
    pub fn from_elf(bytes: &[u8]) -> Result<Table, ElfError> {
        Table::of(&Elf::open(std::io::Cursor::new(bytes.to_vec()))?)
    }

    /// Builds the table of an ELF file, reading only the parts with unwind data.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn of(elf: &Elf) -> Result<Table, ElfError> {
        Ok(Table { compiled: tables().compile(elf)?, arch: elf.arch() })
    }

    /// Builds the table of an ELF file, with rules of code without unwind data: see [`derived`](crate::derived).
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn with_derived_rules(elf: &Elf) -> Result<Table, ElfError> {
        Ok(Table { compiled: tables().with_derived_rules().compile(elf)?, arch: elf.arch() })
    }

    /// Opens a table that was built before: see [`image`](Table::image).
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no valid table of this version.
    pub fn from_image(image: Vec<u8>, arch: Arch) -> Result<Table, Invalid> {
        validate(&image)?;
        Ok(Table { compiled: Compiled::new(image), arch })
    }

    /// Creates a table with rules for single addresses, which are sorted and less than 4 GiB apart.
    pub(crate) fn of_single_rows(rows: &[(u64, RawRule)], arch: Arch) -> Table {
        let mut builder = Builder::new(rows.first().map_or(0, |row| row.0));
        for &(address, rule) in rows {
            builder.push(address, Packed::of(&rule));
            builder.push(address.saturating_add(1), Packed::NO_DATA);
        }
        Table { compiled: Compiled::new(builder.finish().image), arch }
    }

    /// Returns the rule for the instruction at `address`, or `None` if there is no unwind data.
    pub fn rule(&self, address: u64) -> Option<Rule> {
        let number = self.view()?.find(address)?;
        Some(self.at(number)).filter(Rule::is_described)
    }

    /// Returns `true` if a row begins at `address`.
    pub(crate) fn begins(&self, address: u64) -> bool {
        self.view().is_some_and(|view| view.begins(address))
    }

    /// Iterates over all rows by address, including rows without unwind data.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let rows = self.view().into_iter().flat_map(|view| view.rows());
        rows.map(|(address, number)| Row { address, rule: self.at(number) })
    }

    /// Iterates over the distinct rules.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        let view = self.view();
        let numbers = 0..view.map_or(0, |view| view.header().rules);
        numbers.map(|number| self.at(number as u16))
    }

    /// Returns the bytes of the table, laid out as [`ebpf_programs::abi::table`] defines.
    pub fn image(&self) -> &[u8] {
        &self.compiled.image
    }

    /// Returns the number of rows of the file that a rule cannot express, or only in part.
    pub fn unsupported(&self) -> u32 {
        self.compiled.unsupported
    }

    /// Returns the number of malformed entries, plus sections in an unknown compression (zstd).
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
