//! The map of code ranges; see [`abi::dotnet`](ebpf_programs::abi::dotnet).

use ebpf_profiler_core::language::{Memory, Reason};
use ebpf_programs::abi::dotnet::{LEVELS, MAX_FRAGMENTS};

/// A range section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) start: u64,
    /// The module of a precompiled image; 0 for none.
    pub(super) module: u64,
}

/// Maximum number of tables that [`first_image`] reads.
const MAX_TABLES: usize = 256;

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
    let [start, _, _, _, module] = words(section, memory)?;
    Ok(Section { start, module })
}

/// Returns the first precompiled image for which `is_it` returns a value, and the value. Bounded:
/// only so many tables are read.
pub(super) fn first_image<T>(
    map: u64,
    memory: &dyn Memory,
    is_it: impl Fn(&Section) -> Option<T>,
) -> Result<Option<T>, Reason> {
    let mut pending = vec![(map, 0)];
    let mut count = 0;
    while let Some((table, level)) = pending.pop() {
        count += 1;
        if count > MAX_TABLES {
            return Ok(None);
        }
        let bytes = memory.bytes(table, 2048, 2048)?;
        let entries = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes) & !1);
        for entry in entries.filter(|&entry| entry != 0) {
            if level + 1 < LEVELS.len() {
                pending.push((entry, level + 1));
            } else if let Some(found) = images(entry, memory)?.iter().find_map(&is_it) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Returns the precompiled images in a list of fragments.
fn images(fragment: u64, memory: &dyn Memory) -> Result<Vec<Section>, Reason> {
    let (mut at, mut images) = (fragment, Vec::new());
    for _ in 0..MAX_FRAGMENTS {
        if at == 0 {
            break;
        }
        let [next, _, _, section] = words(at, memory)?;
        let section = read(section & !1, memory)?;
        if section.module != 0 {
            images.push(section);
        }
        at = next & !1;
    }
    Ok(images)
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
