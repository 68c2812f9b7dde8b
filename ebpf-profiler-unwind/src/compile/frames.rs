//! Rows from call frame information.

use crate::arch::{Registers, Translated};
use crate::bytes::Bytes;
use crate::eh_frame::cie::Cache;
use crate::eh_frame::cies::Cies;
use crate::eh_frame::entry::Kind;
use crate::eh_frame::fde::Fde;
use crate::eh_frame::plain::{Plain, Progress};
use crate::eh_frame::program::Program;
use crate::eh_frame::section::Reader;
use crate::index::Item;
use crate::table::rules::Packed;

use super::output::Output;

/// One section, and what is used again from function to function.
pub(super) struct Frames<'a> {
    reader: Reader<'a>,
    registers: &'a Registers,
    cies: &'a Cies,
    cache: Cache<'a>,
    /// The offset of a CIE, and how its plain functions are carried out.
    plain: (usize, Option<Plain>),
}

impl<'a> Frames<'a> {
    pub(super) fn new(reader: Reader<'a>, cies: &'a Cies, registers: &'a Registers) -> Frames<'a> {
        Frames { reader, registers, cies, cache: Cache::new(), plain: (usize::MAX, None) }
    }

    /// Adds the rows of the function whose entry is at `offset`; `None` when it makes no sense.
    #[inline(never)]
    pub(super) fn function(&mut self, item: Item, offset: usize, output: &mut Output) -> Option<()> {
        let address = self.reader.section().address;
        let (entry, _) = self.reader.entry(offset)?;
        let Kind::Fde(cie_offset) = entry.kind else { return None };
        let cie = self.cache.get(self.cies, cie_offset, self.registers)?;
        let fde = Fde::parse(address, &entry, cie.functions())?;
        let range = item.begin..fde.range.end.min(item.next);
        output.function(range.start, range.end);
        if self.plain.0 != cie_offset {
            self.plain = (cie_offset, Plain::of(cie, self.registers));
        }
        let mut code = fde.instructions;
        let Some(plain) = &self.plain.1 else {
            return finish(Program::new(cie, self.registers, range), code, output);
        };
        let mut progress = Progress::new(range.start, plain.first);
        if plain.run(&mut progress, &mut code, range.end, |at, rule| output.row(at, rule)) {
            return Some(());
        }
        finish(Program::behind(cie, self.registers, range.end, (plain.first, &progress)), code, output)
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
