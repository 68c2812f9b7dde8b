//! Rows from call frame information.

use crate::arch::{Registers, Translated};
use crate::bytes::Bytes;
use crate::eh_frame::cie::Cache;
use crate::eh_frame::cies::Cies;
use crate::eh_frame::entry::Kind;
use crate::eh_frame::fde::Fde;
use crate::eh_frame::plain::Progress;
use crate::eh_frame::program::Program;
use crate::eh_frame::section::Reader;
use crate::index::Item;
use crate::table::rules::Packed;

use super::output::Output;

/// One section, and what is used again from function to function.
pub(super) struct Frames<'a> {
    reader: Reader<'a>,
    registers: &'a Registers,
    cies: Cies,
    cache: Cache,
    /// How many functions were asked for, and how many of them begin where it was said, and have an end.
    asked: u32,
    confirmed: u32,
}

impl<'a> Frames<'a> {
    pub(super) fn new(reader: Reader<'a>, cies: Cies, registers: &'a Registers) -> Frames<'a> {
        Frames { reader, registers, cies, cache: Cache::new(), asked: 0, confirmed: 0 }
    }

    /// Whether all functions that were asked for are where it was said.
    pub(super) fn confirms(&self) -> bool {
        self.confirmed == self.asked
    }

    /// Adds the rows of the function whose entry is at `offset`; `None` when it makes no sense.
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
            self.learn(cie)?;
            return self.described(item, offset, output);
        };
        let fde = Fde::parse(address, &entry, common.functions)?;
        self.confirmed += u32::from(fde.range.start == item.begin && !fde.range.is_empty());
        let range = item.begin..fde.range.end.min(item.next);
        output.function(range.start, range.end);
        let mut code = fde.instructions;
        let Some(plain) = &common.plain else {
            let cie = self.cies.get(cie, self.registers)?;
            return finish(Program::new(&cie, self.registers, range), code, output);
        };
        let mut progress = Progress::new(range.start, plain.first);
        if plain.run(&mut progress, &mut code, range.end, |at, rule| output.row(at, rule)) {
            return Some(());
        }
        let cie = self.cies.get(cie, self.registers)?;
        finish(Program::behind(&cie, self.registers, range.end, (plain.first, &progress)), code, output)
    }

    /// Takes note of a CIE.
    #[cold]
    fn learn(&mut self, offset: usize) -> Option<()> {
        self.cies.find(offset, &mut self.reader)?;
        self.cache.put(offset, &self.cies.get(offset, self.registers)?, self.registers);
        Some(())
    }
}

/// Carries out what is left of a function.
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
