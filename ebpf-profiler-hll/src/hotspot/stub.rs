//! Names of the machine's own code: stub routines, most of which are generated when the virtual
//! machine starts, some by the threads of its compilers.

use ebpf_profiler_core::language::Memory;

use super::tables;

/// Maximum number of stub routines.
const MAX_STUBS: usize = 4096;

/// Maximum number of times that the list is read: it grows a few times.
const MAX_READS: u32 = 64;

/// The list of stub routines in one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Stubs {
    /// Address of the list's head; 0 if it is unknown.
    list: u64,
    /// The head when the list was read; new routines are put before it.
    head: u64,
    reads: u32,
    /// Routines with a name, sorted by address.
    routines: Vec<(u64, u64, String)>,
}

impl Stubs {
    /// Creates the names of a list, which is read when the first one is needed.
    pub(super) fn new(list: u64) -> Stubs {
        Stubs { list, ..Stubs::default() }
    }

    /// Returns the name of the stub routine at an address. Reads the list again if it has grown.
    pub(super) fn name(&mut self, at: u64, memory: &dyn Memory) -> Option<&str> {
        if self.find(at).is_none() {
            self.update(memory);
        }
        self.find(at).map(|index| &*self.routines[index].2)
    }

    fn find(&self, at: u64) -> Option<usize> {
        let index = self.routines.partition_point(|&(start, ..)| start <= at).checked_sub(1)?;
        (at < self.routines[index].1).then_some(index)
    }

    fn update(&mut self, memory: &dyn Memory) {
        let head = if self.list == 0 { 0 } else { memory.u64(self.list).unwrap_or(0) };
        if head != self.head && self.reads < MAX_READS {
            self.head = head;
            self.reads += 1;
            self.routines = read(head, memory);
        }
    }
}

/// Reads the list from its first routine on: `{next, group, name, [index,] begin, end}`. An
/// unreadable list ends there.
fn read(head: u64, memory: &dyn Memory) -> Vec<(u64, u64, String)> {
    let pages = tables::Pages::new(memory);
    let memory: &dyn Memory = &pages;
    let mut routines = Vec::new();
    let mut at = head;
    while at != 0 && routines.len() < MAX_STUBS {
        let Ok(words) = memory.array::<48>(at) else { break };
        let word =
            |index: usize| words.as_chunks::<8>().0.get(index).map_or(0, |word| u64::from_le_bytes(*word));
        // An index, which some versions have, is a small number.
        let begin = if word(3) >> 32 == 0 { 4 } else { 3 };
        let (start, end) = (word(begin), word(begin + 1));
        let Some(name) = tables::text(word(2), memory) else { break };
        if start < end {
            routines.push((start, end, name));
        }
        at = word(0);
    }
    routines.sort();
    routines
}

#[cfg(test)]
mod tests {
    use ebpf_profiler_core::language::Unreadable;

    use super::*;

    #[test]
    fn reads_list_again_once_it_has_grown() {
        let word = |bytes: &mut Vec<u8>, at: usize, value: u64| {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes())
        };
        let mut bytes = vec![0; 1 << 13];
        // Two routines: the second one is put before the first later.
        for (at, name, begin) in [(64, 256, 1_u64 << 40), (128, 272, 1 << 41)] {
            word(&mut bytes, at + 16, name);
            word(&mut bytes, at + 24, begin);
            word(&mut bytes, at + 32, begin + 16);
        }
        bytes[256..259].copy_from_slice(b"one");
        bytes[272..275].copy_from_slice(b"two");
        word(&mut bytes, 8, 64);
        let mut stubs = Stubs::new(8);
        let of = |bytes: &Vec<u8>, stubs: &mut Stubs, at: u64| {
            let memory = |address: u64, buffer: &mut [u8]| {
                let from = usize::try_from(address).map_err(|_| Unreadable)?;
                let part = bytes.get(from..from + buffer.len()).ok_or(Unreadable)?;
                buffer.copy_from_slice(part);
                Ok(())
            };
            stubs.name(at, &memory).map(str::to_owned)
        };
        assert_eq!(of(&bytes, &mut stubs, (1 << 40) + 15).as_deref(), Some("one"));
        assert_eq!(of(&bytes, &mut stubs, 1 << 41), None);
        word(&mut bytes, 128, 64);
        word(&mut bytes, 8, 128);
        assert_eq!(of(&bytes, &mut stubs, 1 << 41).as_deref(), Some("two"));
        assert_eq!(of(&bytes, &mut stubs, 1 << 40).as_deref(), Some("one"));
        assert_eq!(of(&bytes, &mut stubs, (1 << 41) + 16), None);
    }
}
