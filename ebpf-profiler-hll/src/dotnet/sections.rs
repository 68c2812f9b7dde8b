//! The map of code ranges; see [`abi::dotnet`](ebpf_programs::abi::dotnet).

use ebpf_profiler_core::language::{Memory, Reason};
use ebpf_programs::abi::dotnet::{LEVELS, MAX_FRAGMENTS};

/// A range section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The module of a precompiled image; 0 for none.
    pub(super) module: u64,
    /// The code heap; 0 for none.
    pub(super) heap: u64,
}

/// Maximum number of tables that [`first`] reads, and of sections.
const MAX_TABLES: usize = 256;
const MAX_SECTIONS: usize = 1024;

/// Returns the section that covers an address.
pub(super) fn find(map: u64, address: u64, memory: &dyn Memory) -> Result<Option<Section>, Reason> {
    let mut at = map;
    for shift in LEVELS {
        at = memory.u64(at.wrapping_add((address >> shift & 0xff) * 8))? & !1;
        if at == 0 {
            return Ok(None);
        }
    }
    for _ in 0..MAX_FRAGMENTS {
        if at == 0 {
            return Ok(None);
        }
        let [next, begin, end, section] = words(at, memory)?;
        if (begin..end).contains(&address) {
            return read(section & !1, memory).map(Some);
        }
        at = next & !1;
    }
    Err(Reason::Implausible)
}

fn read(section: u64, memory: &dyn Memory) -> Result<Section, Reason> {
    let [start, end, _, _, module, heap] = words(section, memory)?;
    Ok(Section { start, end, module, heap })
}

/// Returns the first value that `is_it` returns for a section, in the order of the map. Bounded: only
/// so many tables and sections are read.
pub(super) fn first<T>(
    map: u64,
    memory: &dyn Memory,
    is_it: impl Fn(&Section) -> Option<T>,
) -> Result<Option<T>, Reason> {
    let mut pending = vec![(map, 0)];
    let (mut tables, mut sections) = (0, 0);
    while let Some((table, level)) = pending.pop() {
        tables += 1;
        if tables > MAX_TABLES {
            return Ok(None);
        }
        let bytes = memory.bytes(table, 2048, 2048)?;
        let entries = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes) & !1);
        for entry in entries.filter(|&entry| entry != 0) {
            if level + 1 < LEVELS.len() {
                pending.push((entry, level + 1));
                continue;
            }
            let found = list(entry, memory)?;
            sections += found.len();
            if let Some(found) = found.iter().find_map(&is_it) {
                return Ok(Some(found));
            }
            if sections > MAX_SECTIONS {
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// Returns the sections of a list of fragments.
fn list(fragment: u64, memory: &dyn Memory) -> Result<Vec<Section>, Reason> {
    let (mut at, mut sections) = (fragment, Vec::new());
    for _ in 0..MAX_FRAGMENTS {
        if at == 0 {
            break;
        }
        let [next, _, _, section] = words(at, memory)?;
        sections.push(read(section & !1, memory)?);
        at = next & !1;
    }
    Ok(sections)
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
