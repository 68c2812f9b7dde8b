//! Metadata of an assembly (ECMA-335, partition II, 22 to 24): names of methods and their types.
//!
//! ```text
//!   BSJB, length of the version 12, …, number of streams, streams: offset, size, name
//!     #~        sizes of indices 6, tables 8, …, numbers of rows 24, rows
//!     #Strings  texts that end with a zero byte
//! ```
//!
//! Nothing is kept: a name takes some thirty short reads.

use ebpf_profiler_core::language::{Memory, Reason};

use super::image::METADATA;

/// Metadata in the memory of a process.
pub(super) struct Metadata<'m> {
    memory: &'m dyn Memory,
    /// Start and size of the texts.
    strings: (u64, u64),
    tables: Tables,
}

/// Names of a method, and of the types around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MethodName {
    pub(super) namespace: String,
    /// The outermost type first.
    pub(super) types: Vec<String>,
    pub(super) method: String,
}

/// Maximum number of streams.
const MAX_STREAMS: usize = 16;

/// Maximum number of types around a type.
const MAX_NESTED: usize = 16;

/// Maximum size of a text; longer ones are cut.
const MAX_TEXT: usize = 1024;

/// Maximum number of rows: a token has 24 bits for them.
const MAX_ROWS: u32 = 0xff_ffff;

/// Numbers of tables.
const TYPE_DEF: usize = 2;
const METHOD_PTR: usize = 5;
const METHOD_DEF: usize = 6;
const NESTED_CLASS: usize = 0x29;

impl<'m> Metadata<'m> {
    /// Reads the headers of `size` bytes of metadata.
    pub(super) fn read(address: u64, size: u32, memory: &'m dyn Memory) -> Result<Metadata<'m>, Reason> {
        let head: [u8; 16] = memory.array(address)?;
        let version = word(&head, 12);
        if word(&head, 0) != METADATA || version > 256 {
            return Err(Reason::Implausible);
        }
        let at = address.wrapping_add(16 + u64::from(version));
        let streams = usize::from(memory.array::<4>(at)?[2]).min(MAX_STREAMS);
        let (mut at, mut strings, mut tables) = (at.wrapping_add(4), None, None);
        for _ in 0..streams {
            // A name has at most 32 bytes with its zeros.
            let head: [u8; 20] = memory.array(at)?;
            let (offset, length) = (word(&head, 0), word(&head, 4));
            let name = head[8..].split(|&byte| byte == 0).next().unwrap_or_default();
            at = at.wrapping_add(8 + (name.len() as u64 / 4 + 1) * 4);
            if offset > size || length > size - offset {
                continue;
            }
            let stream = (address.wrapping_add(offset.into()), u64::from(length));
            match name {
                b"#~" => tables = Some(stream),
                b"#Strings" => strings = Some(stream),
                _ => {}
            }
        }
        let (tables, length) = tables.ok_or(Reason::Implausible)?;
        let tables = Tables::read(tables, length, memory)?;
        Ok(Metadata { memory, strings: strings.ok_or(Reason::Implausible)?, tables })
    }

    /// Returns the name of the method in row `row`, from 1 on.
    pub(super) fn method(&self, row: u32) -> Result<MethodName, Reason> {
        // Rows of methods are found through another table in files that were edited.
        if row == 0 || self.tables.rows[METHOD_PTR] != 0 {
            return Err(Reason::Implausible);
        }
        let method = self.text(METHOD_DEF, row, 8)?;
        let lists = self.tables.column(TYPE_DEF, 5);
        let owner = self.last_at_most(TYPE_DEF, lists, row)?.ok_or(Reason::Implausible)?;
        let mut types = vec![self.text(TYPE_DEF, owner, 4)?];
        let mut outermost = owner;
        while let Some(enclosing) = self.enclosing(outermost)? {
            if types.len() > MAX_NESTED {
                return Err(Reason::Implausible);
            }
            outermost = enclosing;
            types.push(self.text(TYPE_DEF, outermost, 4)?);
        }
        types.reverse();
        let namespace = self.text(TYPE_DEF, outermost, 4 + self.tables.strings)?;
        Ok(MethodName { namespace, types, method })
    }

    /// Returns the row of the type around a type.
    fn enclosing(&self, row: u32) -> Result<Option<u32>, Reason> {
        let size = self.tables.index(TYPE_DEF);
        let Some(found) = self.last_at_most(NESTED_CLASS, (0, size), row)? else { return Ok(None) };
        if self.cell(NESTED_CLASS, found, 0, size)? != row {
            return Ok(None);
        }
        self.cell(NESTED_CLASS, found, size, size).map(Some)
    }

    /// Returns the last row of a table, sorted by a column, whose value there is at most `value`.
    fn last_at_most(
        &self,
        table: usize,
        (offset, size): (u64, u64),
        value: u32,
    ) -> Result<Option<u32>, Reason> {
        let (mut first, mut last) = (0, self.tables.rows[table]);
        while first < last {
            let middle = first + (last - first) / 2;
            if self.cell(table, middle + 1, offset, size)? <= value {
                first = middle + 1;
            } else {
                last = middle;
            }
        }
        Ok((first > 0).then_some(first))
    }

    /// Returns the value of `size` bytes at an offset of a row, from 1 on.
    fn cell(&self, table: usize, row: u32, offset: u64, size: u64) -> Result<u32, Reason> {
        if row == 0 || row > self.tables.rows[table] {
            return Err(Reason::Implausible);
        }
        let start = self.tables.starts[table] + u64::from(row - 1) * self.tables.sizes[table];
        let at = start.wrapping_add(offset);
        Ok(match size {
            2 => u16::from_le_bytes(self.memory.array(at)?).into(),
            _ => self.memory.u32(at)?,
        })
    }

    /// Returns the text whose index is at an offset of a row.
    fn text(&self, table: usize, row: u32, offset: u64) -> Result<String, Reason> {
        let index = u64::from(self.cell(table, row, offset, self.tables.strings)?);
        let (start, size) = self.strings;
        let left = size.checked_sub(index).ok_or(Reason::Implausible)?;
        text(start.wrapping_add(index), left, self.memory)
    }
}

/// Reads a text that ends with a zero byte within `left` bytes.
pub(super) fn text(address: u64, left: u64, memory: &dyn Memory) -> Result<String, Reason> {
    const CHUNK: usize = 64;
    let mut bytes = Vec::new();
    while bytes.len() < MAX_TEXT {
        let length = left.saturating_sub(bytes.len() as u64).min(CHUNK as u64);
        let at = address.wrapping_add(bytes.len() as u64);
        // Not beyond a page that may be the last one.
        let length = length.min(4096 - at % 4096);
        let chunk = memory.bytes(at, length, CHUNK)?;
        if let Some(end) = chunk.iter().position(|&byte| byte == 0) {
            bytes.extend(&chunk[..end]);
            return String::from_utf8(bytes).map_err(|_| Reason::Implausible);
        }
        if chunk.is_empty() {
            return Err(Reason::Implausible);
        }
        bytes.extend(chunk);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned() + "…")
}

/// Returns the number at an offset of a header; 0 beyond it.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u32::from_le_bytes)
}

/// Number of tables up to that of nested types.
const TABLES: usize = NESTED_CLASS + 1;

/// Sizes and addresses of the tables.
struct Tables {
    rows: [u32; 64],
    /// Sizes of rows.
    sizes: [u64; TABLES],
    /// Addresses of the first rows.
    starts: [u64; TABLES],
    /// Sizes of indices of texts, identifiers and bytes.
    strings: u64,
    guids: u64,
    blobs: u64,
}

impl Tables {
    fn read(address: u64, length: u64, memory: &dyn Memory) -> Result<Tables, Reason> {
        let head: [u8; 24] = memory.array(address)?;
        let heaps = head[6];
        let valid = u64::from(word(&head, 8)) | u64::from(word(&head, 12)) << 32;
        let heap = |bit: u8| if heaps & bit != 0 { 4 } else { 2 };
        let mut tables = Tables {
            rows: [0; 64],
            sizes: [0; TABLES],
            starts: [0; TABLES],
            strings: heap(1),
            guids: heap(2),
            blobs: heap(4),
        };
        let mut offset = 24;
        for table in (0..64).filter(|table| valid >> table & 1 != 0) {
            let rows = memory.u32(address.wrapping_add(offset))?;
            if rows > MAX_ROWS {
                return Err(Reason::Implausible);
            }
            tables.rows[table] = rows;
            offset += 4;
        }
        // Sizes that an unoptimized stream has in between.
        offset += if heaps & 0x40 != 0 { 4 } else { 0 };
        for (table, columns) in COLUMNS.iter().enumerate() {
            tables.sizes[table] = columns.iter().map(|column| tables.size(*column)).sum();
            tables.starts[table] = address.wrapping_add(offset);
            offset += u64::from(tables.rows[table]) * tables.sizes[table];
        }
        if offset > length {
            return Err(Reason::Implausible);
        }
        Ok(tables)
    }

    /// Returns the size of an index into a table.
    fn index(&self, table: usize) -> u64 {
        if self.rows[table] < 1 << 16 { 2 } else { 4 }
    }

    /// Returns the size of a column.
    fn size(&self, column: Column) -> u64 {
        match column {
            Column::Bytes(size) => size,
            Column::String => self.strings,
            Column::Guid => self.guids,
            Column::Blob => self.blobs,
            Column::Index(table) => self.index(table),
            Column::Coded(bits, tables) => {
                let most = tables.iter().map(|&table| self.rows[table]).max().unwrap_or(0);
                if most < 1 << (16 - bits) { 2 } else { 4 }
            }
        }
    }

    /// Returns offset and size of a column.
    fn column(&self, table: usize, index: usize) -> (u64, u64) {
        let offset = COLUMNS[table][..index].iter().map(|column| self.size(*column)).sum();
        (offset, self.size(COLUMNS[table][index]))
    }
}

/// The size of a column of a table.
#[derive(Clone, Copy, Debug)]
enum Column {
    /// A number of bytes.
    Bytes(u64),
    /// An index of a text, an identifier or bytes.
    String,
    Guid,
    Blob,
    /// A row of a table.
    Index(usize),
    /// A row of one of some tables, and bits that say of which.
    Coded(u32, &'static [usize]),
}

const TYPE_DEF_OR_REF: Column = Column::Coded(2, &[0x02, 0x01, 0x1b]);
const HAS_CONSTANT: Column = Column::Coded(2, &[0x04, 0x08, 0x17]);
const HAS_CUSTOM_ATTRIBUTE: Column = Column::Coded(
    5,
    &[
        0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14, 0x11, 0x1a, 0x1b, 0x20, 0x23, 0x26,
        0x27, 0x28, 0x2a, 0x2c, 0x2b,
    ],
);
const HAS_FIELD_MARSHAL: Column = Column::Coded(1, &[0x04, 0x08]);
const HAS_DECL_SECURITY: Column = Column::Coded(2, &[0x02, 0x06, 0x20]);
const MEMBER_REF_PARENT: Column = Column::Coded(3, &[0x02, 0x01, 0x1a, 0x06, 0x1b]);
const HAS_SEMANTICS: Column = Column::Coded(1, &[0x14, 0x17]);
const METHOD_DEF_OR_REF: Column = Column::Coded(1, &[0x06, 0x0a]);
const MEMBER_FORWARDED: Column = Column::Coded(1, &[0x04, 0x06]);
const IMPLEMENTATION: Column = Column::Coded(2, &[0x26, 0x23, 0x27]);
const CUSTOM_ATTRIBUTE_TYPE: Column = Column::Coded(3, &[0x06, 0x0a]);
const RESOLUTION_SCOPE: Column = Column::Coded(2, &[0x00, 0x1a, 0x23, 0x01]);

const TWO: Column = Column::Bytes(2);
const FOUR: Column = Column::Bytes(4);
const STRING: Column = Column::String;
const GUID: Column = Column::Guid;
const BLOB: Column = Column::Blob;

const fn row(table: usize) -> Column {
    Column::Index(table)
}

/// The columns of each table, by its number.
const COLUMNS: [&[Column]; TABLES] = [
    &[TWO, STRING, GUID, GUID, GUID],
    &[RESOLUTION_SCOPE, STRING, STRING],
    &[FOUR, STRING, STRING, TYPE_DEF_OR_REF, row(0x04), row(0x06)],
    &[row(0x04)],
    &[TWO, STRING, BLOB],
    &[row(0x06)],
    &[FOUR, TWO, TWO, STRING, BLOB, row(0x08)],
    &[row(0x08)],
    &[TWO, TWO, STRING],
    &[row(0x02), TYPE_DEF_OR_REF],
    &[MEMBER_REF_PARENT, STRING, BLOB],
    &[TWO, HAS_CONSTANT, BLOB],
    &[HAS_CUSTOM_ATTRIBUTE, CUSTOM_ATTRIBUTE_TYPE, BLOB],
    &[HAS_FIELD_MARSHAL, BLOB],
    &[TWO, HAS_DECL_SECURITY, BLOB],
    &[TWO, FOUR, row(0x02)],
    &[FOUR, row(0x04)],
    &[BLOB],
    &[row(0x02), row(0x14)],
    &[row(0x14)],
    &[TWO, STRING, TYPE_DEF_OR_REF],
    &[row(0x02), row(0x17)],
    &[row(0x17)],
    &[TWO, STRING, BLOB],
    &[TWO, row(0x06), HAS_SEMANTICS],
    &[row(0x02), METHOD_DEF_OR_REF, METHOD_DEF_OR_REF],
    &[STRING],
    &[BLOB],
    &[TWO, MEMBER_FORWARDED, STRING, row(0x1a)],
    &[FOUR, row(0x04)],
    &[FOUR, FOUR],
    &[FOUR],
    &[FOUR, TWO, TWO, TWO, TWO, FOUR, BLOB, STRING, STRING],
    &[FOUR],
    &[FOUR, FOUR, FOUR],
    &[TWO, TWO, TWO, TWO, FOUR, BLOB, STRING, STRING, BLOB],
    &[FOUR, row(0x23)],
    &[FOUR, FOUR, FOUR, row(0x23)],
    &[FOUR, STRING, BLOB],
    &[FOUR, FOUR, STRING, STRING, IMPLEMENTATION],
    &[FOUR, FOUR, STRING, IMPLEMENTATION],
    &[row(0x02), row(0x02)],
];

#[cfg(test)]
mod tests;
