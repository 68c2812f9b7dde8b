//! From a file to its table.

use ebpf_profiler_core::elf::{Elf, ElfError};
use ebpf_profiler_core::unwind::{Compiled, UnwindCompiler};

use crate::arch::Registers;
use crate::code::Code;
use crate::eh_frame::cie::Cache;
use crate::eh_frame::entry::{Kind, Section};
use crate::eh_frame::fde::Fde;
use crate::eh_frame::program::Program;
use crate::eh_frame::state::State;
use crate::index::{Index, Item};
use crate::source;
use crate::table::build::Builder;
use crate::table::rules::Packed;

/// Builds unwind tables from whatever a file brings along.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables {}

/// Builds unwind tables from whatever a file brings along: what to hand to the profiler's builder.
pub fn tables() -> Tables {
    Tables {}
}

impl UnwindCompiler for Tables {
    fn compile(&self, elf: &Elf) -> Result<Compiled, ElfError> {
        let Some(registers) = Registers::of(elf.arch()) else { return Ok(Compiled::default()) };
        match source::eh_frame(elf)? {
            Some(section) => Ok(from_section(&section, &Code::of(elf), registers)),
            None => Ok(Compiled::default()),
        }
    }
}

fn from_section(section: &Section, code: &Code, registers: &'static Registers) -> Compiled {
    let index = Index::of(section, code, registers);
    let Some(first) = index.items(code).next() else {
        return Compiled { malformed: index.malformed, ..Compiled::default() };
    };
    let mut compiler = Compiler::new(section, code, registers, first.begin);
    for item in index.items(code) {
        if compiler.function(item).is_none() {
            compiler.counts.malformed += 1;
        }
    }
    let compiled = compiler.finish();
    Compiled { malformed: compiled.malformed + index.malformed, ..compiled }
}

/// A table at work.
struct Compiler<'a> {
    section: &'a Section,
    code: &'a Code,
    registers: &'static Registers,
    cies: Cache<'a>,
    remembered: Vec<State<'a>>,
    builder: Builder,
    /// Where the last function ends.
    end: u64,
    /// What couldn't be said so far.
    counts: Compiled,
}

impl<'a> Compiler<'a> {
    fn new(section: &'a Section, code: &'a Code, registers: &'static Registers, first: u64) -> Compiler<'a> {
        Compiler {
            section,
            code,
            registers,
            cies: Cache::new(),
            remembered: Vec::new(),
            builder: Builder::new(first),
            end: first,
            counts: Compiled::default(),
        }
    }

    /// Adds the rows of one function; `None` when its description makes no sense.
    fn function(&mut self, item: Item) -> Option<()> {
        let (entry, _) = self.section.entry(item.place as usize)?;
        let Kind::Fde(cie) = entry.kind else { return None };
        let cie = self.cies.get(self.section, cie, self.registers)?;
        let fde = Fde::parse(self.section, &entry, cie)?;
        let end = fde.range.end.min(item.next).min(self.code.end(item.begin)?);
        close_gap(&mut self.builder, self.end, item.begin);
        self.end = end;

        let (builder, unsupported, signal) = (&mut self.builder, &mut self.counts.unsupported, cie.signal);
        let mut program = Program::new(cie, self.registers, item.begin..end, &mut self.remembered);
        let done = program.run(fde.instructions, |at, state| {
            let translated = self.registers.rule(state, signal);
            *unsupported += u32::from(!translated.complete);
            builder.push(at, translated.rule);
        });
        if done.is_none() {
            builder.push(program.at(), Packed::CANNOT);
        }
        done
    }

    fn finish(mut self) -> Compiled {
        self.builder.push(self.end, Packed::NO_DATA);
        let built = self.builder.finish();
        Compiled { image: built.image, unsupported: self.counts.unsupported + built.dropped, ..self.counts }
    }
}

/// Says that there is nothing between `end` and `begin`, unless that is only padding in front of an aligned function:
/// the row before then goes on, and a table has a fifth fewer rows.
#[inline]
fn close_gap(builder: &mut Builder, end: u64, begin: u64) {
    let gap = begin.saturating_sub(end);
    let alignment = 1u64.checked_shl(begin.trailing_zeros()).unwrap_or(0).min(MAX_PADDING + 1);
    if gap >= alignment {
        builder.push(end, Packed::NO_DATA);
    }
}

/// The longest padding between two functions.
const MAX_PADDING: u64 = 15;
