//! Where rows go, whatever they come from.

use ebpf_profiler_core::unwind::Compiled;

use crate::arch::Registers;
use crate::stub::Stub;
use crate::table::build::Builder;
use crate::table::rules::Packed;

/// A table at work, and what couldn't be said so far.
pub(super) struct Output {
    builder: Builder,
    /// Start of the first function.
    first: u64,
    /// Where the last function ends.
    end: u64,
    unsupported: u32,
    pub(super) malformed: u32,
}

impl Output {
    /// A table whose first function begins at `first`.
    pub(super) fn new(first: u64, malformed: u32) -> Output {
        Output { builder: Builder::new(first), first, end: first, unsupported: 0, malformed }
    }

    /// A function begins, and ends.
    ///
    /// Between the last one and this there is nothing, unless it is only padding in front of an aligned function:
    /// then the row before goes on, and a table has a fifth fewer rows.
    #[inline]
    pub(super) fn function(&mut self, begin: u64, end: u64) {
        let gap = begin.saturating_sub(self.end);
        if gap >= alignment(begin) {
            self.builder.push(self.end, Packed::NO_DATA);
        }
        self.end = end;
    }

    /// Code that is known without being described.
    pub(super) fn stubs(&mut self, stubs: &[Stub]) {
        for Stub { range, rule } in stubs {
            self.function(range.start, range.end);
            self.row(range.start, *rule);
        }
    }

    /// Start of the first function.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Where the last function ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// From `at` on `rule` holds.
    #[inline]
    pub(super) fn row(&mut self, at: u64, rule: Packed) {
        self.builder.push(at, rule);
    }

    /// A row that a rule doesn't hold, or not all of it.
    #[inline]
    pub(super) fn count_unsupported(&mut self, rows: u32) {
        self.unsupported += rows;
    }

    /// Returns the registers to read the file with again, if these do not suffice for one of the rules.
    pub(super) fn other_registers(&self, registers: &Registers) -> Option<Registers> {
        registers.for_rules(self.builder.rules())
    }

    pub(super) fn finish(mut self) -> Compiled {
        self.builder.push(self.end, Packed::NO_DATA);
        let built = self.builder.finish();
        let unsupported = self.unsupported.saturating_add(built.dropped);
        let mut compiled = Compiled::new(built.image);
        (compiled.unsupported, compiled.malformed) = (unsupported, self.malformed);
        compiled
    }
}

/// The largest power of two that divides an address, 16 at most.
fn alignment(address: u64) -> u64 {
    let bits = address | 16;
    bits & bits.wrapping_neg()
}
