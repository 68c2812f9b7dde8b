//! Destination of the rows of all sources.

use std::ops::Range;

use ebpf_profiler_core::unwind::Compiled;

use crate::arch::Registers;
use crate::stub::Stub;
use crate::table::build::Builder;
use crate::table::rules::Packed;

/// A table under construction, with its counters.
pub(super) struct Output {
    builder: Builder,
    /// Start of the first function.
    first: u64,
    /// End of the last function.
    end: u64,
    unsupported: u32,
    pub(super) malformed: u32,
    /// Addresses with derived rules.
    derived: Vec<Range<u64>>,
    /// Start of the last of them, which has no end yet.
    derived_from: Option<u64>,
}

impl Output {
    /// Creates a table whose first function begins at `first`.
    pub(super) fn new(first: u64, malformed: u32) -> Output {
        let (builder, derived) = (Builder::new(first), Vec::new());
        Output { builder, first, end: first, unsupported: 0, malformed, derived, derived_from: None }
    }

    /// Records whether the rule from `at` on is derived.
    pub(super) fn set_derived(&mut self, at: u64, is_derived: bool) {
        match self.derived_from {
            None if is_derived => self.derived_from = Some(at),
            Some(from) if !is_derived => {
                self.derived.push(from..at);
                self.derived_from = None;
            }
            _ => {}
        }
    }

    /// Begins a function.
    ///
    /// A gap before it gets a row without unwind data, unless it is only padding of an aligned
    /// function. Then the previous row is extended, which saves a fifth of the rows.
    #[inline]
    pub(super) fn function(&mut self, begin: u64, end: u64) {
        let gap = begin.saturating_sub(self.end);
        if gap >= alignment(begin) {
            self.builder.push(self.end, Packed::NO_DATA);
        }
        self.end = end;
    }

    /// Adds stubs.
    pub(super) fn stubs(&mut self, stubs: &[Stub]) {
        for Stub { range, rule } in stubs {
            self.function(range.start, range.end);
            self.row(range.start, *rule);
        }
    }

    /// Returns the start of the first function.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the end of the last function.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Adds a row: `rule` is in effect from `at` on.
    #[inline]
    pub(super) fn row(&mut self, at: u64, rule: Packed) {
        self.builder.push(at, rule);
    }

    /// Counts rows that a rule cannot express, or only in part.
    #[inline]
    pub(super) fn count_unsupported(&mut self, rows: u32) {
        self.unsupported += rows;
    }

    /// Returns the registers to read the file with again, if these do not suffice for one of the
    /// rules.
    pub(super) fn other_registers(&self, registers: &Registers) -> Option<Registers> {
        registers.for_rules(self.builder.rules())
    }

    pub(super) fn finish(mut self) -> Compiled {
        self.builder.push(self.end, Packed::NO_DATA);
        let built = self.builder.finish();
        let unsupported = self.unsupported.saturating_add(built.dropped);
        let mut compiled = Compiled::new(built.image);
        (compiled.unsupported, compiled.malformed) = (unsupported, self.malformed);
        compiled.derived = self.derived;
        compiled
    }
}

/// Returns the largest power of two that divides an address, at most 16.
fn alignment(address: u64) -> u64 {
    let bits = address | 16;
    bits & bits.wrapping_neg()
}
