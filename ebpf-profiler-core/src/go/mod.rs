//! Go's function table, `.gopclntab`, which is in every Go binary, stripped or not.
//!
//! The Go runtime unwinds and prints stack traces with it. It holds the distance of the stack
//! pointer from its value at the function's entry, and names, files, lines and inlined calls.
//!
//! ```text
//!   header     magic, 0, 0, instruction size, pointer size, number of functions, number of files,
//!              [start of the code, since 1.18], offsets of: names, units, files, pc tables, functions
//!   functions  {entry, offset of description} for each, by address, and the end of the last one
//!   pc table   pairs {change of value, change of address}: see [`Steps`]
//! ```
//!
//! | Go          | magic        | entries are         | description has                    |
//! |-------------|--------------|---------------------|------------------------------------|
//! | 1.16, 1.17  | `0xfffffffa` | addresses, 8 bytes  | a long entry                       |
//! | 1.18, 1.19  | `0xfffffff0` | distances, 4 bytes  |                                    |
//! | 1.20 and on | `0xfffffff1` | distances, 4 bytes  | a line number before the flags     |
//!
//! Since 1.26 the header lacks the start of the code; the runtime's module data or the entry point
//! of the file give it. The table is found by the name of its section, else by its content, which
//! survives the removal of section headers.
//!
//! # Examples
//!
//! ```
//! use ebpf_profiler_core::elf::Elf;
//! use ebpf_profiler_core::internal::go::Pclntab;
//!
//! let elf = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
//! assert!(Pclntab::find(&elf)?.is_none(), "this isn't a Go program");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Layout: [symtab.go of Go 1.21](https://github.com/golang/go/blob/go1.21.0/src/runtime/symtab.go),
//! [its history in debug/gosym](https://github.com/golang/go/blob/go1.21.0/src/debug/gosym/pclntab.go).

mod find;
mod function;
mod inlined;
mod module;
mod steps;

pub use function::Function;
pub use inlined::Inlined;
pub use steps::Steps;

/// The functions of a Go binary.
#[derive(Clone, Debug)]
pub struct Pclntab {
    data: Vec<u8>,
    /// Its virtual address.
    address: u64,
    version: Version,
    /// The address that entries are relative to.
    text: u64,
    /// Size of the smallest instruction, in bytes.
    quantum: u64,
    count: usize,
    names: usize,
    units: usize,
    files: usize,
    pc_tables: usize,
    functions: usize,
    inlined: Option<inlined::Trees>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Go116,
    Go118,
    Go120,
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

    /// Returns the size of the header in bytes.
    fn header(self) -> usize {
        if self == Version::Go116 { 64 } else { 72 }
    }

    /// Returns the size of one word of the function list, in bytes; an entry is a pair of them.
    fn entry(self) -> usize {
        if self == Version::Go116 { 8 } else { 4 }
    }
}

impl Pclntab {
    /// Parses the header; `None` if it is not one, or not for 64 bits.
    ///
    /// Before 1.18 and since 1.26 the header lacks the start of the code.
    fn parse(data: Vec<u8>, address: u64) -> Option<Pclntab> {
        let version = Version::of(word(&data, 0)?)?;
        let &[0, 0, quantum @ (1 | 2 | 4), 8] = data.get(4..8)? else { return None };
        let number = |place: usize| usize::try_from(long(&data, 8 * place)?).ok();
        let text = if version == Version::Go116 { 0 } else { long(&data, 24)? };
        let first = version.header() / 8 - 5;
        let table = Pclntab {
            version,
            text,
            quantum: quantum.into(),
            count: number(1)?,
            names: number(first)?,
            units: number(first + 1)?,
            files: number(first + 2)?,
            pc_tables: number(first + 3)?,
            functions: number(first + 4)?,
            inlined: None,
            address,
            data,
        };
        // The list of functions is complete.
        table.entry(table.count)?;
        Some(table)
    }

    /// Returns the number of functions.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if there is no function.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the size of the table in bytes.
    pub fn size(&self) -> usize {
        self.data.len()
    }

    /// Returns the address of function `number`; for [`len`](Self::len), the end of the last
    /// function.
    pub fn entry(&self, number: usize) -> Option<u64> {
        let at = self.listed(number)?;
        match self.version {
            Version::Go116 => long(&self.data, at),
            _ => self.text.checked_add(word(&self.data, at)?.into()),
        }
    }

    /// Returns function `number`.
    pub fn function(&self, number: usize) -> Option<Function<'_>> {
        let size = self.version.entry();
        let at = self.listed(number)?.checked_add(size)?;
        let offset = match self.version {
            Version::Go116 => usize::try_from(long(&self.data, at)?).ok()?,
            _ => word(&self.data, at)? as usize,
        };
        let description = self.functions.checked_add(offset)?.checked_add(size)?;
        Function::at(self, self.entry(number)?, description)
    }

    /// Returns the function that contains `address`.
    pub fn function_at(&self, address: u64) -> Option<Function<'_>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)? <= address { low = middle + 1 } else { high = middle }
        }
        let number = low.checked_sub(1)?;
        self.function(number).filter(|_| self.entry(number + 1).is_some_and(|end| address < end))
    }

    /// Returns the offset of function `number` in the list.
    fn listed(&self, number: usize) -> Option<usize> {
        self.functions.checked_add(number.checked_mul(2 * self.version.entry())?)
    }

    fn name(&self, offset: u32) -> Option<&[u8]> {
        text(&self.data, self.names.checked_add(offset as usize)?)
    }

    /// Returns the name of file `number` of the unit that begins at `unit`.
    fn file(&self, unit: u32, number: u32) -> Option<&[u8]> {
        /// Offset of a file that the linker dropped.
        const GONE: u32 = u32::MAX;
        let place = (unit as usize).checked_add(number as usize)?.checked_mul(4)?;
        let offset = word(&self.data, self.units.checked_add(place)?)?;
        text(&self.data, self.files.checked_add(offset as usize).filter(|_| offset != GONE)?)
    }

    /// Returns the pc table at `offset` of a function that begins at `entry`.
    fn steps(&self, offset: u32, entry: u64) -> Option<Steps<'_>> {
        let at = self.pc_tables.checked_add(offset as usize).filter(|_| offset != 0)?;
        Some(Steps::new(self.data.get(at..)?, entry, self.quantum))
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

fn long(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

/// Returns the bytes from `at` up to the next zero.
fn text(data: &[u8], at: usize) -> Option<&[u8]> {
    let rest = data.get(at..)?;
    rest.get(..rest.iter().position(|&byte| byte == 0)?)
}
