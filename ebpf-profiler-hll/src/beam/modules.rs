//! The table of loaded modules, and the functions in their headers.

use ebpf_profiler_core::language::{Memory, Reason};
use ebpf_programs::abi::beam::{ATOM, ATOM_MASK, JUMP_OPCODE, JUMP_SIZE, MAX_COUNT, NAME, TABLE, TABLES};
use ebpf_programs::walk::identity::beam::modules;

use ebpf_profiler_core::language::Words;

/// Offsets at which the array of functions may begin in a header.
const FUNCTIONS: std::ops::RangeInclusive<u64> = 80..=224;

/// Maximum distance from the end of this array to the first function, in bytes.
const MAX_GAP: u64 = 4096;

/// Maximum number of bytes of the jumps behind a module's functions: there are some 200 shared
/// fragments.
const MAX_JUMPS: usize = 4096;

/// Maximum number of functions of a module by which the offset is derived.
const MAX_DERIVED: u64 = 4096;

/// The tables of the modules of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modules {
    /// Address of the tables.
    pub(super) tables: u64,
    /// Address of the index of the active one.
    pub(super) active: u64,
    /// Offset of the functions in a header.
    pub(super) functions: u64,
}

/// A function in its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Header of the module.
    pub(super) header: u64,
    /// Index of the function.
    pub(super) index: u64,
    /// Its `ErtsCodeInfo`.
    pub(super) info: u64,
}

impl Modules {
    /// Returns the function that covers an address; `None` if there is none.
    pub(super) fn find(&self, address: u64, memory: &dyn Memory) -> Result<Option<Found>, Reason> {
        let (table, count) =
            modules(&mut Words::new(memory), self.tables, self.active).ok_or(Reason::Unreadable)?;
        let Some((header, _)) = search(table, count, 16, address, memory)? else { return Ok(None) };
        let array = header.wrapping_add(self.functions);
        let count = memory.u64(header)?;
        if count >= MAX_COUNT {
            return Err(Reason::Implausible);
        }
        let found = search(array, count, 8, address, memory)?;
        Ok(found.map(|(info, index)| Found { header, index, info }))
    }

    /// Returns `true` if there are only jumps to shared fragments from an address to the end of the
    /// function that was found there: they are behind the last function of a module, and count as its
    /// code.
    pub(super) fn is_jump(&self, address: u64, found: &Found, memory: &dyn Memory) -> Result<bool, Reason> {
        let next = found.header.wrapping_add(self.functions).wrapping_add((found.index + 1) * 8);
        let jumps = memory.bytes(address, memory.u64(next)?.wrapping_sub(address), MAX_JUMPS)?;
        let (jumps, rest) = jumps.as_chunks::<{ JUMP_SIZE as usize }>();
        let is_jump = |code: &[u8; JUMP_SIZE as usize]| code.starts_with(&(JUMP_OPCODE as u16).to_le_bytes());
        Ok(rest.is_empty() && jumps.iter().all(is_jump))
    }
}

/// Returns the first word and the index of the element that covers an address: its first word is
/// not above it, the next word is.
fn search(
    array: u64,
    count: u64,
    stride: u64,
    address: u64,
    memory: &dyn Memory,
) -> Result<Option<(u64, u64)>, Reason> {
    let (mut first, mut last) = (0, count);
    while first < last {
        let middle = (first + last) / 2;
        let [start, end] = words(array.wrapping_add(middle * stride), memory)?;
        if address < start {
            last = middle;
        } else if address >= end {
            first = middle + 1;
        } else {
            return Ok(Some((start, middle)));
        }
    }
    Ok(None)
}

/// Reads consecutive words.
pub(super) fn words<const N: usize>(address: u64, memory: &dyn Memory) -> Result<[u64; N], Reason> {
    let mut words = [0; N];
    let bytes = memory.bytes(address, N as u64 * 8, N * 8)?;
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(words)
}

/// Reads an array of words.
pub(super) fn array(address: u64, count: u64, most: u64, memory: &dyn Memory) -> Result<Vec<u64>, Reason> {
    if count > most {
        return Err(Reason::Implausible);
    }
    let bytes = memory.bytes(address, count * 8, usize::MAX)?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
}

/// Returns the address of the tables: three in a row, each `{modules, count, capacity, the module
/// that was found last}`, the only ones in the data of the file, which begins at `start`. `None` if
/// there are none, or several.
pub(super) fn tables(data: &[u64], start: u64, memory: &dyn Memory) -> Option<u64> {
    const WORDS: usize = (TABLE * TABLES) as usize / 8;
    let is_table = |table: &[u64]| match *table {
        [modules, count, capacity, middle] => {
            0 < count
                && count <= capacity
                && capacity < MAX_COUNT
                && modules % 8 == 0
                && modules != 0
                && (modules..=modules.saturating_add(count * 16)).contains(&middle)
        }
        _ => false,
    };
    let mut found = (0..)
        .zip(data.windows(WORDS))
        .filter(|(_, words)| words.chunks(4).all(is_table))
        .filter(|(_, words)| words.chunks(4).any(|table| is_sorted(table[0], table[1], memory)))
        .map(|(index, _)| start + index * 8);
    let tables = found.next()?;
    found.next().is_none().then_some(tables)
}

/// Returns `true` if a table's modules ascend.
fn is_sorted(modules: u64, count: u64, memory: &dyn Memory) -> bool {
    let Ok(words) = array(modules, count * 2, MAX_COUNT * 2, memory) else { return false };
    words.is_sorted() && words.first().is_some_and(|&start| start != 0)
}

/// Returns the offset of the functions in a header: the only one that fits three modules.
pub(super) fn functions_offset(ranges: &[(u64, u64)], memory: &dyn Memory) -> Result<u64, Reason> {
    let last = ranges.len().checked_sub(1).ok_or(Reason::NotReady)?;
    let mut offsets: Vec<u64> = FUNCTIONS.step_by(8).collect();
    for index in [0, last / 2, last] {
        let (header, end) = ranges[index];
        offsets.retain(|offset| is_functions(header, end, *offset, memory).unwrap_or(false));
    }
    match offsets.as_slice() {
        [offset] => Ok(*offset),
        // A module was purged in between, or a layout that isn't known.
        _ => Err(Reason::Implausible),
    }
}

/// Returns `true` if the array of functions may begin at an offset: they ascend up to the end of
/// the module, begin behind the array, and are those of one module.
fn is_functions(header: u64, end: u64, offset: u64, memory: &dyn Memory) -> Result<bool, Reason> {
    let count = memory.u64(header)?;
    if count == 0 || count > MAX_DERIVED {
        return Ok(false);
    }
    let at = header.wrapping_add(offset);
    let functions = array(at, count + 1, MAX_DERIVED + 1, memory)?;
    let behind = at.wrapping_add(8 * (count + 1));
    let is_behind = functions.first().is_some_and(|first| first.wrapping_sub(behind) <= MAX_GAP);
    if !is_behind || !functions.is_sorted() || functions.last().is_none_or(|last| *last > end) {
        return Ok(false);
    }
    let module = |info: u64| memory.u64(info.wrapping_add(NAME));
    let first = module(functions[0])?;
    Ok(first & ATOM_MASK == ATOM && module(functions[functions.len() - 2])? == first)
}
