//! Rows from call frame information.

use crate::arch::{Registers, Translated};
use crate::eh_frame::cie::Cache;
use crate::eh_frame::entry::{Kind, Section};
use crate::eh_frame::fde::Fde;
use crate::eh_frame::program::{Change, Program};
use crate::eh_frame::state::State;
use crate::index::Item;
use crate::table::rules::Packed;

use super::output::Output;

/// One section, and what is used again from function to function.
pub(super) struct Frames<'a> {
    section: &'a Section,
    registers: &'static Registers,
    cies: Cache<'a>,
    remembered: Vec<State<'a>>,
}

impl<'a> Frames<'a> {
    pub(super) fn new(section: &'a Section, registers: &'static Registers) -> Frames<'a> {
        Frames { section, registers, cies: Cache::new(), remembered: Vec::new() }
    }

    /// Adds the rows of the function whose entry is at `offset`; `None` when it makes no sense.
    #[inline]
    pub(super) fn function(&mut self, item: Item, offset: usize, output: &mut Output) -> Option<()> {
        let (entry, _) = self.section.entry(offset)?;
        let Kind::Fde(cie) = entry.kind else { return None };
        let cie = self.cies.get(self.section, cie, self.registers)?;
        let fde = Fde::parse(self.section, &entry, cie)?;
        let end = fde.range.end.min(item.next);
        output.function(item.begin, end);
        let mut program = Program::new(cie, self.registers, item.begin..end, &mut self.remembered);
        let mut last = NOTHING;
        let done = program.run(fde.instructions, |at, state, change| {
            let same = match change {
                Change::None => Some(last),
                Change::Offset(offset) => last.with_offset(offset),
                Change::Any => None,
            };
            let translated = same.unwrap_or_else(|| self.registers.rule(state, cie.signal));
            last = translated;
            output.count_unsupported(u32::from(!translated.complete));
            output.row(at, translated.rule);
        });
        if done.is_none() {
            output.row(program.at(), Packed::CANNOT);
        }
        done
    }
}

/// In front of the first row.
const NOTHING: Translated = Translated { rule: Packed::NO_DATA, complete: true };
