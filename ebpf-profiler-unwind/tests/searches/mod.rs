//! The walkers' searches for a rule, over one table.

use ebpf_profiler_core::internal::tables::{MemoryTables, Tables};
use ebpf_programs::abi::arena::{BLOCK_WORDS, UNIT};
use ebpf_programs::abi::table::Rule;
use ebpf_programs::machine::Machine;
use ebpf_programs::walk::find_rule;

/// A table at some place of the arena.
pub(crate) struct Searches {
    tables: MemoryTables,
    place: u32,
}

impl Searches {
    pub(crate) fn new(image: &[u8], place: u32) -> Searches {
        let mut tables = MemoryTables::default();
        tables.write(u64::from(place) * UNIT as u64, image).expect("there is room");
        Searches { tables, place }
    }

    /// Results for an address: of the kernel's search, of the host's, and of the host's with each
    /// block alone.
    pub(crate) fn find(&self, address: u64) -> [Option<Rule>; 3] {
        self.search(address, false)
    }

    /// The same where a call should end there, which all have to say alike.
    pub(crate) fn find_called(&self, address: u64) -> Option<Rule> {
        let [found, others @ ..] = self.search(address, true);
        assert_eq!(others, [found; 2], "a call that ends at {address:x}");
        found
    }

    fn search(&self, address: u64, called: bool) -> [Option<Rule>; 3] {
        let (whole, tables) = (usize::MAX, &self.tables);
        [
            find_rule(&World::<true> { tables, piece: whole }, self.place, address, called),
            find_rule(&World::<false> { tables, piece: whole }, self.place, address, called),
            find_rule(&World::<false> { tables, piece: BLOCK_WORDS }, self.place, address, called),
        ]
    }
}

/// A walker's view of the table, in pieces of this many words; the kernel's if `VERIFIED`.
struct World<'a, const VERIFIED: bool> {
    tables: &'a MemoryTables,
    piece: usize,
}

impl<const VERIFIED: bool> Machine for World<'_, VERIFIED> {
    const VERIFIED: bool = VERIFIED;

    fn words_from(&self, word: u32) -> Option<&[u32]> {
        let words = self.tables.piece(word)?;
        words.get(..words.len().min(self.piece - word as usize % self.piece))
    }
    fn read_stack(&mut self, _: u64) -> Option<u64> {
        None
    }
    fn read_memory(&mut self, _: u64) -> Option<u64> {
        None
    }
    fn push_frame(&mut self, _: u64) {}
}
