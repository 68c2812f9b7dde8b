//! Rows of functions without unwind data, derived from their instructions.
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

use crate::arch::{NONE, Registers};
use crate::table::rules::Packed;

mod backward;

mod flow;

mod function;

mod x86_64;

use flow::State as _;
use function::Function;

/// Maximum size of a function, in bytes.
pub(crate) const MAX_FUNCTION: u64 = 1 << 20;

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
        let function = Function::follow(code, x86_64::State::at_entry(entry), &mut self.budget);
        let kept = if self.registers.kept == NONE { None } else { Some(self.registers.kept) };
        function.rows(|at, state| row(at, state.and_then(|state| state.rule(kept))));
    }
}
