//! Code between the functions that unwind data describes: stubs, and functions whose rows are derived.

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf};
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
    /// `true` if rules of other code are derived too.
    derives: bool,
}

/// Minimum size of other code: a gap that is smaller has only padding.
const MIN_REGION: u64 = 16;

/// Maximum size of code that is read at a time, in bytes.
const MAX_READ: u64 = 1 << 24;

impl<'a> Gaps<'a> {
    pub(super) fn new(
        elf: &'a Elf,
        functions: &'a [BareFunction],
        derives: bool,
        registers: &'a Registers,
    ) -> Gaps<'a> {
        let derives = derives && elf.arch() == Arch::X86_64;
        Gaps { elf, stubs: Stubs::new(elf), functions, deriver: Deriver::new(elf.arch(), registers), derives }
    }

    /// Returns `true` if a gap may have stubs or functions.
    #[inline]
    pub(super) fn may_have_code(&self, gap: &Range<u64>) -> bool {
        self.derives && gap.end.saturating_sub(gap.start) >= MIN_REGION
            || self.stubs.may_be_in(gap)
            || self.functions.first().is_some_and(|first| first.range.start < gap.end)
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
        let region = self.regions(gap).first().map(|region| region.start);
        stubs.first().map(|stub| stub.range.start).into_iter().chain(function).chain(region).min()
    }

    /// Adds the rows of the stubs and functions in a gap. Where they overlap, stubs come first.
    pub(super) fn fill(&mut self, gap: Range<u64>, mut stubs: &[Stub], output: &mut Output) {
        while let Some((function, rest)) = self.functions.split_first() {
            if function.range.start >= gap.end {
                break;
            }
            self.functions = rest;
            let before = stubs.partition_point(|stub| stub.range.end <= function.range.start);
            self.stubs_and_regions(&gap, &stubs[..before], output);
            stubs = &stubs[before..];
            let is_free = stubs.first().is_none_or(|stub| stub.range.start >= function.range.end);
            let gap = output.end().max(gap.start)..gap.end;
            if is_free && is_in(&function.range, &gap) {
                let start = start(function, &gap);
                self.derive_regions(gap.start..start, output);
                self.function(function, start, output);
            }
        }
        self.stubs_and_regions(&gap, stubs, output);
        self.derive_regions(output.end().max(gap.start)..gap.end, output);
    }

    /// Adds the rows of stubs, and of the code before each.
    fn stubs_and_regions(&mut self, gap: &Range<u64>, stubs: &[Stub], output: &mut Output) {
        for stub in stubs {
            self.derive_regions(output.end().max(gap.start)..stub.range.start, output);
            output.stubs(std::slice::from_ref(stub));
        }
    }

    /// Returns the parts of a gap that are large enough for code, in order.
    fn regions(&self, gap: &Range<u64>) -> Vec<Range<u64>> {
        if !self.derives || gap.end.saturating_sub(gap.start) < MIN_REGION {
            return Vec::new();
        }
        let mut parts = self.stubs.executable(gap);
        parts.retain(|part| part.end - part.start >= MIN_REGION);
        parts
    }

    /// Adds the rows of code that nothing describes.
    #[cold]
    fn derive_regions(&mut self, gap: Range<u64>, output: &mut Output) {
        for part in self.regions(&gap) {
            let mut at = part.start;
            while at < part.end {
                let end = part.end.min(at.saturating_add(MAX_READ));
                self.derive_region(at..end, output);
                at = end;
            }
        }
    }

    fn derive_region(&mut self, part: Range<u64>, output: &mut Output) {
        let mut code = vec![0; (part.end - part.start) as usize];
        if self.elf.read(part.start, &mut code).is_err() {
            return;
        }
        output.function(part.start, part.end);
        output.row(part.start, Packed::NO_DATA);
        // A source that answers no more ends the work.
        let answers = || self.elf.read(part.start, &mut [0]).is_ok();
        self.deriver.region(&code, part.start, answers, |at, rule| {
            let address = part.start + at as u64;
            output.set_derived(address, rule.is_some());
            output.row(address, rule.unwrap_or(Packed::NO_DATA));
        });
        output.set_derived(part.end, false);
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
