//! Rows from call frame information.

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;

use crate::arch::{NONE, Registers, Translated};
use crate::bytes::Bytes;
use crate::eh_frame::cie::Cache;
use crate::eh_frame::cies::Cies;
use crate::eh_frame::entry::Kind;
use crate::eh_frame::fde::Fde;
use crate::eh_frame::plain::Progress;
use crate::eh_frame::program::Program;
use crate::eh_frame::section::Reader;
use crate::eh_return::{self, Install};
use crate::index::Item;
use crate::table::rules::Packed;

use super::output::Output;

/// A section, and the state that functions share.
pub(super) struct Frames<'a> {
    elf: &'a Elf,
    reader: Reader<'a>,
    registers: &'a Registers,
    cies: Cies,
    cache: Cache,
    /// Number of functions asked for, and of those that begin at the expected address and are not
    /// empty.
    asked: u32,
    confirmed: u32,
}

impl<'a> Frames<'a> {
    pub(super) fn new(elf: &'a Elf, reader: Reader<'a>, cies: Cies, registers: &'a Registers) -> Frames<'a> {
        Frames { elf, reader, registers, cies, cache: Cache::new(), asked: 0, confirmed: 0 }
    }

    /// Returns `true` if all functions were at their expected addresses.
    pub(super) fn confirms(&self) -> bool {
        self.confirmed == self.asked
    }

    /// Adds the rows of the function whose FDE is at `offset`. Returns `None` if it is malformed.
    #[inline]
    pub(super) fn function(&mut self, item: Item, offset: usize, output: &mut Output) -> Option<()> {
        self.asked += 1;
        self.described(item, offset, output)
    }

    #[inline(never)]
    fn described(&mut self, item: Item, offset: usize, output: &mut Output) -> Option<()> {
        let address = self.reader.section().address;
        let entry = self.reader.expected(offset)?;
        let Kind::Fde(cie) = entry.kind else { return None };
        let Some(common) = self.cache.get(cie) else {
            self.cache_cie(cie)?;
            return self.described(item, offset, output);
        };
        let fde = Fde::parse(address, &entry, common.functions)?;
        self.confirmed += u32::from(fde.range.start == item.begin && !fde.range.is_empty());
        let range = item.begin..fde.range.end.min(item.next);
        output.function(range.start, range.end);
        let mut code = fde.instructions;
        if self.registers.finds_eh_return && eh_return::has_end(code.0) {
            let cie = self.cies.get(cie, self.registers)?;
            let program = Program::new(&cie, self.registers, range.clone());
            let installs = installs(self.elf, &range);
            return install(program, code, &range, self.registers, &installs, output);
        }
        let Some(plain) = &common.plain else {
            let cie = self.cies.get(cie, self.registers)?;
            return finish(Program::new(&cie, self.registers, range), code, output);
        };
        let mut progress = Progress::new(range.start, plain.first);
        if plain.run(&mut progress, &mut code, range.end, |at, rule| output.row(at, rule)) {
            return Some(());
        }
        let cie = self.cies.get(cie, self.registers)?;
        finish(Program::resume(&cie, self.registers, range.end, (plain.first, &progress)), code, output)
    }

    /// Reads a CIE and caches it.
    #[cold]
    fn cache_cie(&mut self, offset: usize) -> Option<()> {
        self.cies.find(offset, &mut self.reader)?;
        self.cache.put(offset, &self.cies.get(offset, self.registers)?, self.registers);
        Some(())
    }
}

/// Reads the code of a function that ends in `__builtin_eh_return`.
#[cold]
fn installs(elf: &Elf, range: &Range<u64>) -> Vec<Install> {
    let mut code = vec![0; (range.end - range.start).min(eh_return::MAX_CODE) as usize];
    elf.read(range.start, &mut code).map_or_else(|_| Vec::new(), |()| eh_return::installs(&code))
}

/// Adds the rows of such a function, with the rules of [`eh_return`] while its saved registers are
/// overwritten.
#[cold]
fn install<'a>(
    mut program: Program<'_, 'a>,
    code: Bytes<'a>,
    range: &Range<u64>,
    registers: &Registers,
    installs: &[Install],
    output: &mut Output,
) -> Option<()> {
    let kept = if registers.kept == NONE { 0 } else { registers.kept as u8 };
    let mut rows = Vec::new();
    let done = program.run(code, |at, row| rows.push((at, row)));
    let end = if done.is_some() { range.end } else { program.at() };
    let ends: Vec<u64> = rows.iter().skip(1).map(|(at, _)| *at).chain([end]).collect();
    for ((mut at, Translated { rule, complete }), end) in rows.into_iter().zip(ends) {
        output.count_unsupported(u32::from(!complete));
        for Install { code, return_address } in installs.iter().filter(|_| eh_return::is_frame(rule)) {
            let from = at.max(range.start + code.start as u64);
            let to = end.min(range.start + code.end as u64);
            if from < to {
                output.row(at, rule);
                output.row(from, Packed::of(&eh_return::rule(*return_address, kept)));
                output.count_unsupported(1);
                at = to;
            }
        }
        if at < end {
            output.row(at, rule);
        }
    }
    if done.is_none() {
        output.row(end, Packed::CANNOT);
    }
    done
}

/// Executes the remaining instructions of a function.
#[cold]
#[inline(never)]
fn finish<'a>(mut program: Program<'_, 'a>, code: Bytes<'a>, output: &mut Output) -> Option<()> {
    let done = program.run(code, |at, Translated { rule, complete }| {
        output.count_unsupported(u32::from(!complete));
        output.row(at, rule);
    });
    if done.is_none() {
        output.row(program.at(), Packed::CANNOT);
    }
    done
}
