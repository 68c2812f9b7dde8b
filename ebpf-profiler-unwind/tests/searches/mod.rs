//! The walkers' two searches for a rule, over one table.

use ebpf_profiler_core::tables::{MemoryTables, Tables};
use ebpf_programs::abi::arena::{Block, UNIT};
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

    /// What the kernel's walker finds for an address, and what all others find.
    pub(crate) fn find(&self, address: u64) -> [Option<Rule>; 2] {
        let (kernel, host) = (World::<true>(&self.tables), World::<false>(&self.tables));
        [find_rule(&kernel, self.place, address), find_rule(&host, self.place, address)]
    }
}

/// What a walker sees of it; the kernel's where it is `VERIFIED`.
struct World<'a, const VERIFIED: bool>(&'a MemoryTables);

impl<const VERIFIED: bool> Machine for World<'_, VERIFIED> {
    const VERIFIED: bool = VERIFIED;

    fn block(&self, index: u32) -> Option<&Block> {
        self.0.block(index)
    }
    fn stack(&mut self, _: u64) -> Option<u64> {
        None
    }
    fn memory(&mut self, _: u64) -> Option<u64> {
        None
    }
    fn frame(&mut self, _: u64) {}
}
