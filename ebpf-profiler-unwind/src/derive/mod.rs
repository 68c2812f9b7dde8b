//! Rows of functions without unwind data, derived from their instructions.
//!
//! | code | module | callees |
//! | --- | --- | --- |
//! | functions that a runtime names | `function` | may pop their arguments |
//! | all other code between functions that have unwind data | `region` | follow the ABI |
//!
//! Functions that a runtime names:
//!
//! ```text
//!   push rbp            cfa = rsp + 8                       the state before each instruction, from the entry on and both ways
//!   mov rbp, rsp        cfa = rsp + 16, rbp = [cfa - 16]    at branches; states that meet are merged
//!   push 34             cfa = rbp + 16, rbp = [cfa - 16]
//!   ...
//!   mov rbp, [rbp]
//!   add rsp, 16         cfa = rsp + 24                      the stack pointer may be unknown, as callees pop their arguments:
//!   jmp callee          cfa = rsp + 8                       then its distance is counted back from the end
//! ```
//!
//! | code | rule |
//! | --- | --- |
//! | reached from the entry | its state's |
//! | reached by no jump: handlers of exceptions, targets of jump tables | that of a whole frame, if all paths agree with it |
//! | paths that disagree, registers and memory that are not followed, unknown instructions | none |
//! | functions in which instructions overlap | none |
//!
//! Supported on x86_64. Each instruction is executed a few times at most, and all functions of a file share a budget.

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::unwind::Entry;
use ebpf_programs::abi::table::Rule;

use crate::arch::{NONE, Registers};
use crate::table::rules::Packed;

mod backward;

mod flow;

mod function;

mod region;

mod x86_64;

use flow::{Callees, State as _};
use function::Function;
pub use region::Refusal;
use region::Region;

/// Maximum size of a function, in bytes.
pub(crate) const MAX_FUNCTION: u64 = 1 << 20;

/// Maximum size of the code whose states are kept at a time, in bytes.
const MAX_REGION: usize = 1 << 18;

/// Number of instructions that are executed in the functions of one file. All builtins of V8 take half a million.
const BUDGET: usize = 1 << 24;

/// Derives the rows of functions.
pub(crate) struct Deriver<'a> {
    registers: &'a Registers,
    arch: Arch,
    budget: usize,
}

impl<'a> Deriver<'a> {
    pub(crate) fn new(arch: Arch, registers: &'a Registers) -> Deriver<'a> {
        Deriver { registers, arch, budget: BUDGET }
    }

    /// Calls `row` with the offset and the rule of each row of a function, in order; `None` where no rule was derived.
    pub(crate) fn derive(&mut self, code: &[u8], entry: Entry, mut row: impl FnMut(usize, Option<Packed>)) {
        if self.arch != Arch::X86_64 {
            return row(0, None);
        }
        let function =
            Function::follow(code, x86_64::State::at_entry(entry, Callees::PopArguments), &mut self.budget);
        let kept = self.kept();
        function.rows(|at, state| row(at, state.and_then(|state| state.rule(kept))));
    }

    /// Calls `row` with the offset and the rule of each row of the code in a gap at `address`, in order; `None` where no rule was
    /// derived. `goes_on` is asked before each part, which takes up to 40 ms.
    pub(crate) fn region(
        &mut self,
        code: &[u8],
        address: u64,
        goes_on: impl Fn() -> bool,
        mut row: impl FnMut(usize, Option<Packed>),
    ) {
        if self.arch != Arch::X86_64 {
            return;
        }
        let kept = self.kept();
        let (mut from, mut is_start) = (0, true);
        while from < code.len() && goes_on() {
            let part = &code[from..code.len().min(from + MAX_REGION)];
            let at = address + from as u64;
            let region = Region::<x86_64::State>::follow(part, at, is_start, &[], &mut self.budget);
            let cut = region.cut().filter(|_| from + part.len() < code.len());
            let end = cut.unwrap_or(part.len());
            is_start = cut.is_some();
            row(from, None);
            region.rows(end, |at, state| row(from + at, state.and_then(|state| state.rule(kept))));
            from += end;
        }
    }

    fn kept(&self) -> Option<u16> {
        if self.registers.kept == NONE { None } else { Some(self.registers.kept) }
    }
}

/// Derives the rules of a function and returns the facts about its instructions, and what was refused.
pub fn facts(code: &[u8], address: u64) -> (Vec<Fact>, Vec<(usize, Refusal)>) {
    let region = Region::<x86_64::State>::follow(code, address, true, &[0], &mut { BUDGET });
    let facts = region.instructions().map(|(at, size, state)| Fact {
        at,
        size,
        offsets: state.map_or([None; 16], x86_64::State::offsets),
        is_unlinked: state.is_some_and(x86_64::State::is_unlinked),
        rule: state.and_then(|state| state.rule(None)).map(Packed::unpack),
    });
    (facts.collect(), region.refused().to_vec())
}

/// The state that was derived for an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    /// Offset of the instruction.
    pub at: usize,
    /// Its size in bytes; 1 for a byte at which no path begins an instruction.
    pub size: usize,
    /// Offsets of registers from the canonical frame address, in DWARF's numbering, as far as they are known.
    pub offsets: [Option<i32>; 16],
    /// `true` if the frame pointer is the caller's.
    pub is_unlinked: bool,
    /// The rule, or `None`.
    pub rule: Option<Rule>,
}
