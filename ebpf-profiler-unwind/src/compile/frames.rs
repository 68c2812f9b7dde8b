//! Rows from call frame information.

use ebpf_programs::abi::table::cfa;

use crate::arch::{Registers, Translated};
use crate::eh_frame::cie::{Cache, Cie};
use crate::eh_frame::cies::Cies;
use crate::eh_frame::entry::Kind;
use crate::eh_frame::fde::Fde;
use crate::eh_frame::program::{Program, Rows};
use crate::eh_frame::section::Reader;
use crate::eh_frame::state::State;
use crate::index::Item;
use crate::table::rules::Packed;

use super::output::Output;

/// One section, and what is used again from function to function.
pub(super) struct Frames<'a> {
    reader: Reader<'a>,
    registers: &'a Registers,
    cies: &'a Cies,
    cache: Cache<'a>,
    /// The offset of a CIE, and the rule that its functions begin with.
    first: (usize, Translated),
}

impl<'a> Frames<'a> {
    pub(super) fn new(reader: Reader<'a>, cies: &'a Cies, registers: &'a Registers) -> Frames<'a> {
        let first = (usize::MAX, Translated { rule: Packed::NO_DATA, complete: true });
        Frames { reader, registers, cies, cache: Cache::new(), first }
    }

    /// Adds the rows of the function whose entry is at `offset`; `None` when it makes no sense.
    #[inline(never)]
    pub(super) fn function(&mut self, item: Item, offset: usize, output: &mut Output) -> Option<()> {
        let address = self.reader.section().address;
        let (entry, _) = self.reader.entry(offset)?;
        let Kind::Fde(cie_offset) = entry.kind else { return None };
        let cie = self.cache.get(self.cies, cie_offset, self.registers)?;
        let fde = Fde::parse(address, &entry, cie.functions())?;
        let end = fde.range.end.min(item.next);
        output.function(item.begin, end);
        if self.first.0 != cie_offset {
            self.first = (cie_offset, first_rule(self.registers, cie));
        }
        let mut rows =
            Translation { registers: self.registers, signal: cie.signal, last: self.first.1, output };
        let range = item.begin..end;
        let mut program = Program::new(cie, self.registers, range, rows.is_plain());
        let done = program.run(fde.instructions, &mut rows);
        if done.is_none() {
            output.row(program.at(), Packed::CANNOT);
        }
        done
    }
}

/// The rule that the functions of a CIE begin with.
#[cold]
fn first_rule(registers: &Registers, cie: &Cie<'_>) -> Translated {
    registers.rule(&cie.initial, cie.signal)
}

/// On the way from rows to rules.
struct Translation<'o> {
    registers: &'o Registers,
    signal: bool,
    last: Translated,
    output: &'o mut Output,
}

impl Translation<'_> {
    /// Whether another offset makes nothing but another offset in the rule.
    fn is_plain(&self) -> bool {
        self.last.rule.cfa() == cfa::REGISTER
    }
}

impl Rows for Translation<'_> {
    #[inline(always)]
    fn row(&mut self, at: u64, row: &State<'_>) -> bool {
        self.last = self.registers.rule(row, self.signal);
        self.output.count_unsupported(u32::from(!self.last.complete));
        self.output.row(at, self.last.rule);
        self.is_plain()
    }

    #[inline(always)]
    fn offset(&mut self, at: u64, offset: i64) {
        let offset = i32::try_from(offset);
        let rule = offset.map_or(Packed::CANNOT, |offset| self.last.rule.with_offset(offset));
        self.output.count_unsupported(u32::from(!self.last.complete || offset.is_err()));
        self.output.row(at, rule);
    }
}
