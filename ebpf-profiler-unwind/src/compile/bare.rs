//! Code between the functions that unwind data describes: stubs, and functions whose rows are derived.

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::unwind::{BareFunction, Entry};

use crate::arch::Registers;
use crate::derive::{Deriver, MAX_FUNCTION};
use crate::stub::{Stub, Stubs};
use crate::table::rules::Packed;

use super::output::Output;

/// The code without unwind data of a file.
pub(super) struct Gaps<'a> {
    elf: &'a Elf,
    stubs: Stubs<'a>,
    /// The functions behind the last gap.
    functions: &'a [BareFunction],
    deriver: Deriver<'a>,
}

impl<'a> Gaps<'a> {
    pub(super) fn new(elf: &'a Elf, functions: &'a [BareFunction], registers: &'a Registers) -> Gaps<'a> {
        Gaps { elf, stubs: Stubs::new(elf), functions, deriver: Deriver::new(elf.arch(), registers) }
    }

    /// Returns `true` if a gap may have stubs or functions.
    #[inline]
    pub(super) fn may_have_code(&self, gap: &Range<u64>) -> bool {
        self.stubs.may_be_in(gap) || self.functions.first().is_some_and(|first| first.range.start < gap.end)
    }

    /// Returns `true` if the function at `address` is the base of a coroutine's stack.
    #[inline]
    pub(super) fn is_coroutine(&self, address: u64) -> bool {
        self.stubs.is_coroutine(address)
    }

    /// Returns the stubs in a gap, in order, without overlap.
    pub(super) fn stubs(&mut self, gap: Range<u64>) -> Vec<Stub> {
        self.stubs.find(gap)
    }

    /// Returns the start of the first stub or function in a gap.
    pub(super) fn begin(&self, gap: &Range<u64>, stubs: &[Stub]) -> Option<u64> {
        let function = self.functions.iter().find(|function| is_in(&function.range, gap));
        let function = function.map(|function| start(function, gap));
        stubs.first().map(|stub| stub.range.start).into_iter().chain(function).min()
    }

    /// Adds the rows of the stubs and functions in a gap. Where they overlap, stubs come first.
    pub(super) fn fill(&mut self, gap: Range<u64>, mut stubs: &[Stub], output: &mut Output) {
        while let Some((function, rest)) = self.functions.split_first() {
            if function.range.start >= gap.end {
                break;
            }
            self.functions = rest;
            let before = stubs.partition_point(|stub| stub.range.end <= function.range.start);
            output.stubs(&stubs[..before]);
            stubs = &stubs[before..];
            let is_free = stubs.first().is_none_or(|stub| stub.range.start >= function.range.end);
            let gap = output.end().max(gap.start)..gap.end;
            if is_free && is_in(&function.range, &gap) {
                self.function(function, start(function, &gap), output);
            }
        }
        output.stubs(stubs);
    }

    /// Adds the rows of a function.
    #[cold]
    fn function(&mut self, function: &BareFunction, start: u64, output: &mut Output) {
        let BareFunction { range, entry } = function;
        let size = range.end - range.start;
        let mut code = vec![0; size.min(MAX_FUNCTION) as usize];
        if size > MAX_FUNCTION || self.elf.read(range.start, &mut code).is_err() {
            return;
        }
        output.function(start, range.end);
        self.deriver.derive(&code, *entry, |at, rule| {
            let address = if at == 0 { start } else { range.start + at as u64 };
            output.row(address, rule.unwrap_or(Packed::NO_DATA));
        });
    }
}

/// Returns `true` if a function lies in a gap.
fn is_in(function: &Range<u64>, gap: &Range<u64>) -> bool {
    gap.start <= function.start && function.start < function.end && function.end <= gap.end
}

/// Returns the start of a function's rows. Callers are looked up one byte before the address to which is returned, and that may
/// be the first one of the function.
fn start(function: &BareFunction, gap: &Range<u64>) -> u64 {
    let is_returned_to = function.entry == Entry::Framed && function.range.start > gap.start;
    function.range.start - u64::from(is_returned_to)
}
