//! Names of the machine's own code: stub routines, which are generated when the virtual machine starts.

use ebpf_profiler_core::language::Memory;

use super::tables;

/// Maximum number of stub routines.
const MAX_STUBS: usize = 4096;

/// Stub routines with a name, sorted by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Stubs(Vec<(u64, u64, String)>);

impl Stubs {
    /// Reads the list whose head is at an address: `{next, group, name, [index,] begin, end}`. An unreadable list is empty.
    pub(super) fn read(head: u64, memory: &dyn Memory) -> Stubs {
        let pages = tables::Pages::new(memory);
        let memory: &dyn Memory = &pages;
        let mut stubs = Vec::new();
        let mut at = memory.u64(head).unwrap_or(0);
        while at != 0 && stubs.len() < MAX_STUBS {
            let Ok(words) = memory.array::<48>(at) else { break };
            let word = |index: usize| {
                words.as_chunks::<8>().0.get(index).map_or(0, |word| u64::from_le_bytes(*word))
            };
            // An index, which some versions have, is a small number.
            let begin = if word(3) >> 32 == 0 { 4 } else { 3 };
            let (start, end) = (word(begin), word(begin + 1));
            let Some(name) = tables::text(word(2), memory) else { break };
            if start < end {
                stubs.push((start, end, name));
            }
            at = word(0);
        }
        stubs.sort();
        Stubs(stubs)
    }

    /// Returns the name of the stub routine at an address.
    pub(super) fn name(&self, at: u64) -> Option<&str> {
        let next = self.0.partition_point(|&(start, ..)| start <= at);
        let (_, end, name) = self.0.get(next.checked_sub(1)?)?;
        (at < *end).then_some(name)
    }
}
