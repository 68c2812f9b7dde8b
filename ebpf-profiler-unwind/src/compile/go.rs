//! Rows from Go's function table.

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::internal::go::{Function, Pclntab, Steps};

use crate::arch::Registers;
use crate::index::Item;
use crate::source;
use crate::table::rules::Packed;

use super::output::Output;

/// The functions of a Go binary.
pub(super) struct Go<'a> {
    elf: &'a Elf,
    table: &'a Pclntab,
    registers: &'a Registers,
    saves_late: bool,
    /// Number of steps left. Functions may share pc tables, so each function of a hostile file
    /// could decode the whole table. Real tables have one step per five to ten bytes.
    budget: usize,
}

impl<'a> Go<'a> {
    pub(super) fn new(elf: &'a Elf, source: &'a source::Go, registers: &'a Registers) -> Go<'a> {
        let source::Go { table, saves_late } = source;
        Go { elf, table, registers, saves_late: *saves_late, budget: table.size() }
    }

    /// Adds the rows of function `number`. Returns `None` if its description is malformed.
    pub(super) fn function(&mut self, item: Item, number: usize, output: &mut Output) -> Option<()> {
        let function = self.table.function(number)?;
        let end = self.table.entry(number + 1).filter(|&end| end > item.begin)?.min(item.next);
        if let Some(rule) = self.whole(&function) {
            // A signal handler returns to its first instruction, and a caller is looked up one byte before
            // the return address: that byte is padding, or the end of a jump.
            let before = u64::from(function.is_signal_return() && output.first() < item.begin);
            output.function(item.begin - before, end);
            output.row(item.begin - before, rule);
            if function.calls_c() {
                self.calls_c(item.begin..end, rule, output);
            }
        } else if let Some(stack) = function.stack().filter(|_| !function.switches_stack()) {
            output.function(item.begin, end);
            self.rows(stack, end, output)?;
        }
        Some(())
    }

    /// Returns the rule of functions that have only one.
    fn whole(&self, function: &Function<'_>) -> Option<Packed> {
        if function.is_outermost() {
            Some(Packed::END)
        } else if function.is_signal_return() {
            self.registers.go.signal_return
        } else if function.switches_stack() {
            self.registers.go.switched
        } else {
            None
        }
    }

    /// Adds the better rules of the function that calls C; `rule` covers the rest.
    fn calls_c(&self, range: Range<u64>, rule: Packed, output: &mut Output) {
        // Real ones have 200 bytes.
        let mut code = vec![0; (range.end - range.start).min(1024) as usize];
        if self.elf.read(range.start, &mut code).is_err() {
            return;
        }
        for (part, better) in (self.registers.go.calls_c)(&code) {
            output.row(range.start + part.start as u64, better);
            output.row(range.start + part.end as u64, rule);
        }
    }

    fn rows(&mut self, steps: Steps<'_>, end: u64, output: &mut Output) -> Option<()> {
        for (number, (mut range, distance)) in steps.enumerate() {
            self.budget = self.budget.checked_sub(1)?;
            if self.saves_late
                && number == 1
                && let Some((rule, size)) = (self.registers.go.unsaved)(distance)
            {
                output.row(range.start, rule);
                range.start = range.end.min(range.start + size);
            }
            let rule = (self.registers.go.row)(distance);
            output.count_unsupported(u32::from(rule.is_none()));
            output.row(range.start, rule.unwrap_or(Packed::CANNOT));
            if range.end >= end {
                break;
            }
        }
        Some(())
    }
}
