//! `.gopclntab`: what the Go runtime itself unwinds by. Every Go binary has it, stripped or not.
//!
//! ```text
//!   header     magic, 0, 0, instruction size, pointer size, number of functions, number of files,
//!              [start of the code, since 1.18], offsets of: names, units, files, pc tables, functions
//!   functions  {entry, offset of description} for each, by address, and where the last one ends
//!   pc table   pairs {change of value, change of address}, the value being the distance from the stack pointer
//!              to where it stood at the entry
//! ```
//!
//! | Go          | magic        | entries are         | description has                    |
//! |-------------|--------------|---------------------|------------------------------------|
//! | 1.16, 1.17  | `0xfffffffa` | addresses, 8 bytes  | a long entry                       |
//! | 1.18, 1.19  | `0xfffffff0` | distances, 4 bytes  |                                    |
//! | 1.20 and on | `0xfffffff1` | distances, 4 bytes  | a line number before the flags     |
//!
//! Since 1.26 the header doesn't tell where the code starts: see [`find`].

use crate::bytes::Bytes;

pub(crate) mod find;

pub(crate) mod steps;

/// The functions of a Go binary.
#[derive(Debug)]
pub(crate) struct Pclntab {
    data: Vec<u8>,
    version: Version,
    /// The address that entries are relative to.
    text: u64,
    /// Bytes in the smallest instruction.
    quantum: u64,
    count: usize,
    names: usize,
    pc_tables: usize,
    functions: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Go116,
    Go118,
    Go120,
}

/// What the table says about one function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function<'a> {
    /// Its name, like `runtime.goexit`.
    pub(crate) name: &'a [u8],
    /// How far the stack pointer is from where it was at the entry; `None` where it isn't told.
    pub(crate) stack: Option<Bytes<'a>>,
    /// Nobody called it: a goroutine or a thread begins here.
    pub(crate) is_outermost: bool,
    /// It moves the stack pointer to somewhere else.
    pub(crate) switches_stack: bool,
}

impl Pclntab {
    /// Reads the header; `None` when it isn't one, or not one for 64 bits.
    ///
    /// Before 1.18 and since 1.26 the header doesn't tell where the code starts.
    fn parse(data: Vec<u8>) -> Option<Pclntab> {
        let mut bytes = Bytes(&data);
        let version = Version::of(bytes.u32()?)?;
        let [0, 0, quantum @ 1..=4, 8] = *bytes.take(4)? else { return None };
        let count = usize::try_from(bytes.u64()?).ok()?;
        let _files = bytes.u64()?;
        let text = if version == Version::Go116 { 0 } else { bytes.u64()? };
        let mut offset = || usize::try_from(bytes.u64()?).ok();
        let (names, _units, _files, pc_tables, functions) =
            (offset()?, offset()?, offset()?, offset()?, offset()?);
        let table =
            Pclntab { version, text, quantum: quantum.into(), count, names, pc_tables, functions, data };
        // The list of functions has room for all of them.
        table.entry(count)?;
        Some(table)
    }

    /// How many functions there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The size of the whole table.
    pub(crate) fn size(&self) -> usize {
        self.data.len()
    }

    /// Bytes in the smallest instruction.
    pub(crate) fn quantum(&self) -> u64 {
        self.quantum
    }

    /// Where function `number` begins; one number behind the last is where that one ends.
    pub(crate) fn entry(&self, number: usize) -> Option<u64> {
        let mut bytes = self.listed(number)?;
        match self.version {
            Version::Go116 => bytes.u64(),
            _ => self.text.checked_add(bytes.u32()?.into()),
        }
    }

    fn listed(&self, number: usize) -> Option<Bytes<'_>> {
        let size = if self.version == Version::Go116 { 16 } else { 8 };
        Bytes::at(&self.data, self.functions.checked_add(number.checked_mul(size)?)?)
    }

    /// Everything else about function `number`.
    pub(crate) fn function(&self, number: usize) -> Option<Function<'_>> {
        let mut listed = self.listed(number)?;
        let (offset, entry_size) = match self.version {
            Version::Go116 => (listed.take(8).and(listed.u64())?, 8),
            _ => (listed.take(4).and(listed.u32())?.into(), 4),
        };
        let at = self.functions.checked_add(usize::try_from(offset).ok()?)?;
        let mut bytes = Bytes::at(&self.data, at)?;
        bytes.take(entry_size)?;
        let name = self.name(bytes.u32()?)?;
        let _arguments_and_defer = bytes.take(8)?;
        let stack = bytes.u32()?;
        let _tables = bytes.take(if self.version == Version::Go120 { 20 } else { 16 })?;
        let (_id, flags) = (bytes.u8()?, bytes.u8()?);
        Some(Function {
            name,
            stack: self.pc_table(stack),
            is_outermost: flags & TOP_FRAME != 0 || OUTERMOST.contains(&name),
            switches_stack: flags & SP_WRITE != 0,
        })
    }

    fn name(&self, offset: u32) -> Option<&[u8]> {
        Bytes::at(&self.data, self.names.checked_add(offset as usize)?)?.string()
    }

    fn pc_table(&self, offset: u32) -> Option<Bytes<'_>> {
        let at = self.pc_tables.checked_add(offset as usize)?;
        Bytes::at(&self.data, at).filter(|_| offset != 0)
    }
}

impl Function<'_> {
    /// Whether it is where signal handlers return to, with the signal frame on the stack.
    pub(crate) fn is_signal_return(&self) -> bool {
        self.name.starts_with(b"runtime.sigreturn")
    }
}

impl Version {
    fn of(magic: u32) -> Option<Version> {
        match magic {
            0xffff_fffa => Some(Version::Go116),
            0xffff_fff0 => Some(Version::Go118),
            0xffff_fff1 => Some(Version::Go120),
            _ => None,
        }
    }
}

const TOP_FRAME: u8 = 1;
const SP_WRITE: u8 = 2;

/// Before 1.17 there is no flag for it.
const OUTERMOST: [&[u8]; 3] = [b"runtime.goexit", b"runtime.mstart", b"runtime.rt0_go"];
