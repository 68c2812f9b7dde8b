//! The tables by which HotSpot describes its structures to debuggers.
//!
//! ```text
//!   gHotSpotVMStructs ──► row, row, …, a row without a type name       one row a field
//!     row: type name, field name, is static, offset or address         at offsets that further variables hold
//!   gHotSpotVMTypes                                                    one row a type: its size
//!   gHotSpotVMIntConstants                                             one row a constant
//! ```
//!
//! The rows of some builds are filled by static initializers, so they are read from the process and
//! not from the file.

use std::cell::RefCell;
use std::collections::HashMap;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Memory, Reason, Target, Unreadable};

use crate::c_text::CText;

/// Maximum number of rows of a table; JDK 8 to 28 have at most 1,400.
const MAX_ROWS: u64 = 4096;

/// Maximum distance between rows, in bytes.
const MAX_STRIDE: u64 = 256;

/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 128;

/// Size of a page of the cache, in bytes.
const PAGE: u64 = 4096;

/// Maximum number of pages that are cached for one table.
const MAX_PAGES: usize = 512;

/// Virtual addresses of the variables that describe the tables.
#[derive(Clone, Debug)]
pub(super) struct TableSymbols {
    structs: TableSymbol<5>,
    types: TableSymbol<2>,
    ints: TableSymbol<2>,
}

/// One table: the variable that points to it, that with the distance of its rows, and those with
/// the offsets of its columns.
#[derive(Clone, Copy, Debug)]
struct TableSymbol<const N: usize> {
    rows: u64,
    stride: u64,
    columns: [u64; N],
}

impl TableSymbols {
    /// Returns the tables of a file, `None` if it does not hold HotSpot.
    pub(super) fn find(elf: &Elf) -> Option<TableSymbols> {
        elf.exports()?.get("gHotSpotVMStructs")?;
        Some(TableSymbols {
            structs: TableSymbol::find(
                elf,
                "Struct",
                ["TypeName", "FieldName", "IsStatic", "Offset", "Address"],
            )?,
            types: TableSymbol::find(elf, "Type", ["TypeName", "Size"])?,
            ints: TableSymbol::find(elf, "IntConstant", ["Name", "Value"])?,
        })
    }
}

impl<const N: usize> TableSymbol<N> {
    fn find(elf: &Elf, table: &str, columns: [&str; N]) -> Option<TableSymbol<N>> {
        let exports = elf.exports()?;
        let address = |name: String| exports.get(&name).map(|symbol| symbol.address);
        let mut found = [0; N];
        for (address_of, column) in found.iter_mut().zip(columns) {
            *address_of = address(format!("gHotSpotVM{table}Entry{column}Offset"))?;
        }
        Some(TableSymbol {
            rows: address(format!("gHotSpotVM{table}s"))?,
            stride: address(format!("gHotSpotVM{table}EntryArrayStride"))?,
            columns: found,
        })
    }

    /// Calls `each` with the cells of each row, until one has no name.
    fn for_each(
        &self,
        target: &Target<'_>,
        memory: &dyn Memory,
        mut each: impl FnMut([u64; N]),
    ) -> Result<(), Reason> {
        let (rows, stride) = (target.word(self.rows)?, target.word(self.stride)?);
        let mut columns = [0; N];
        for (offset, symbol) in columns.iter_mut().zip(self.columns) {
            *offset = target.word(symbol)?;
        }
        if rows == 0 || stride == 0 {
            return Err(Reason::NotReady);
        }
        if stride > MAX_STRIDE || columns.iter().any(|&offset| offset >= stride) {
            return Err(Reason::Implausible);
        }
        for number in 0..MAX_ROWS {
            let row = rows.wrapping_add(number * stride);
            let mut cells = [0; N];
            for (cell, offset) in cells.iter_mut().zip(columns) {
                *cell = memory.u64(row.wrapping_add(offset))?;
            }
            if cells[0] == 0 {
                return if number == 0 { Err(Reason::NotReady) } else { Ok(()) };
            }
            each(cells);
        }
        Err(Reason::Implausible)
    }
}

/// Fields, sizes and constants of one process.
#[derive(Debug, Default)]
pub(super) struct Tables {
    fields: HashMap<(String, String), Field>,
    sizes: HashMap<String, u64>,
    ints: HashMap<String, i32>,
}

/// A field of a structure.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// At this offset.
    Offset(u64),
    /// A variable at this address.
    Static(u64),
}

impl Tables {
    /// Reads the tables, as far as `is_needed` accepts the type of a field.
    pub(super) fn read(
        symbols: &TableSymbols,
        target: &Target<'_>,
        is_needed: impl Fn(&str) -> bool,
    ) -> Result<Tables, Reason> {
        let mut tables = Tables::default();
        let memory = Pages::new(target.memory());
        let memory: &dyn Memory = &memory;
        symbols.structs.for_each(target, memory, |[of, name, is_static, offset, address]| {
            let Some(of) = text(of, memory).filter(|of| is_needed(of)) else { return };
            let Some(name) = text(name, memory) else { return };
            // The flag has four bytes.
            let field = if is_static as u32 == 0 { Field::Offset(offset) } else { Field::Static(address) };
            tables.fields.insert((of, name), field);
        })?;
        symbols.types.for_each(target, memory, |[name, size]| {
            if let Some(name) = text(name, memory).filter(|name| is_needed(name)) {
                tables.sizes.insert(name, size);
            }
        })?;
        symbols.ints.for_each(target, memory, |[name, value]| {
            let of_needed = |name: &String| name.split_once("::").is_some_and(|(of, _)| is_needed(of));
            if let Some(name) = text(name, memory).filter(of_needed) {
                tables.ints.insert(name, value as u32 as i32);
            }
        })?;
        Ok(tables)
    }

    /// Returns tables of fields `Type.field`, sizes `sizeof Type`, and constants `Type::constant`.
    #[cfg(test)]
    pub(super) fn of(rows: &[(&str, u64)]) -> Tables {
        let mut tables = Tables::default();
        for &(name, value) in rows {
            if let Some(of) = name.strip_prefix("sizeof ") {
                tables.sizes.insert(of.to_owned(), value);
            } else if name.contains("::") {
                tables.ints.insert(name.to_owned(), value as i32);
            } else if let Some((of, name)) = name.split_once('.') {
                tables.fields.insert((of.to_owned(), name.to_owned()), Field::Offset(value));
            }
        }
        tables
    }

    /// Returns the offset of a field.
    pub(super) fn offset(&self, of: &str, name: &str) -> Option<u32> {
        match self.fields.get(&(of.to_owned(), name.to_owned()))? {
            Field::Offset(offset) => u32::try_from(*offset).ok().filter(|&offset| offset < 1 << 16),
            Field::Static(_) => None,
        }
    }

    /// Returns the address of a static field.
    pub(super) fn address(&self, of: &str, name: &str) -> Option<u64> {
        match self.fields.get(&(of.to_owned(), name.to_owned()))? {
            Field::Offset(_) => None,
            Field::Static(address) => Some(*address),
        }
    }

    /// Returns the size of a type.
    pub(super) fn size(&self, of: &str) -> Option<u32> {
        let size = u32::try_from(*self.sizes.get(of)?).ok()?;
        (size < 1 << 16).then_some(size)
    }

    /// Returns a constant.
    pub(super) fn int(&self, name: &str) -> Option<i32> {
        self.ints.get(name).copied()
    }
}

/// Returns the zero-terminated ASCII text at an address.
pub(super) fn text(at: u64, memory: &dyn Memory) -> Option<String> {
    let CText { bytes, is_cut } = CText::read(at, MAX_NAME, memory).ok()?;
    let is_ascii = bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    if is_cut || !is_ascii {
        return None;
    }
    String::from_utf8(bytes).ok()
}

/// Memory read in whole pages, each once: tables and their names are many small neighbors.
pub(super) struct Pages<'a> {
    memory: &'a dyn Memory,
    pages: RefCell<HashMap<u64, Option<Box<[u8]>>>>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(memory: &'a dyn Memory) -> Pages<'a> {
        Pages { memory, pages: RefCell::default() }
    }
}

impl Memory for Pages<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let mut pages = self.pages.borrow_mut();
        let mut done = 0;
        while done < buffer.len() {
            let at = address.checked_add(done as u64).ok_or(Unreadable)?;
            let (page, offset) = (at - at % PAGE, (at % PAGE) as usize);
            if pages.len() >= MAX_PAGES && !pages.contains_key(&page) {
                return Err(Unreadable);
            }
            let bytes = pages.entry(page).or_insert_with(|| {
                let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
                self.memory.read(page, &mut bytes).is_ok().then_some(bytes)
            });
            let part = bytes.as_ref().ok_or(Unreadable)?.get(offset..).ok_or(Unreadable)?;
            let count = part.len().min(buffer.len() - done);
            buffer[done..done + count].copy_from_slice(&part[..count]);
            done += count;
        }
        Ok(())
    }
}
