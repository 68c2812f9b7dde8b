//! Line tables of modules.
//!
//! ```text
//!   BeamCodeLineTab: files 0 | size of a location 8 | locations 16 | first address of each function's locations 24 …
//!
//!   location   index of the file << 24 | line; two bytes hold the line alone, of the first file
//! ```

use ebpf_profiler_core::language::{Lines, Memory, Reason};
use ebpf_programs::abi::beam::{FUNCTION_LINES, LINE_TABLE};

use super::modules::{Found, array, words};

/// Maximum number of locations of a function.
const MAX_LOCATIONS: u64 = 1 << 16;

/// Lines of one function.
#[derive(Debug, Default)]
pub(super) struct FunctionLines {
    /// Term of the file: a list of characters, or an atom; `None` without lines.
    pub(super) file: Option<u64>,
    /// First line; 0 if unknown.
    pub(super) start_line: u32,
    pub(super) lines: Lines,
}

/// Reads the lines of a function.
pub(super) fn read(found: &Found, memory: &dyn Memory) -> Result<FunctionLines, Reason> {
    let table = memory.u64(found.header.wrapping_add(LINE_TABLE))?;
    if table == 0 {
        return Ok(FunctionLines::default());
    }
    let [files, size, locations, first] = words(table, memory)?;
    let at = table.wrapping_add(FUNCTION_LINES).wrapping_add(found.index.wrapping_mul(8));
    let [own, next] = words(at, memory)?;
    let count = next.wrapping_sub(own) / 8;
    let addresses = array(own, count, MAX_LOCATIONS, memory)?;
    let size = if size as u32 == 2 { 2 } else { 4 };
    let at = locations.wrapping_add(own.wrapping_sub(first) / 8 * size);
    let bytes = memory.bytes(at, count * size, MAX_LOCATIONS as usize * 4)?;
    let location = |bytes: &[u8]| match *bytes {
        [a, b] => u32::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    };
    let all = || bytes.chunks_exact(size as usize).map(location);
    let known = all().find(|location| *location != 0).unwrap_or(0);
    let mut lines = Lines::default();
    for (address, location) in addresses.iter().zip(all()) {
        // The first one is before the alignment of the function.
        let position = u32::try_from(address.saturating_sub(found.info)).map_err(|_| Reason::Implausible)?;
        let line = if location >> 24 == known >> 24 { location & 0xff_ffff } else { 0 };
        lines.push(position, line);
    }
    let file = match known {
        0 => None,
        _ => Some(memory.u64(files.wrapping_add(u64::from(known >> 24) * 8))?),
    };
    Ok(FunctionLines { file, start_line: known & 0xff_ffff, lines })
}
