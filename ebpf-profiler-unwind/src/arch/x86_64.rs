//! x86_64.

use ebpf_programs::abi::table::{Rule, cfa};

use crate::eh_frame::expression::{Expression, recognize};
use crate::eh_frame::state::{Cfa, Place, State};

use crate::table::rules::Packed;

use super::Registers;

pub(crate) static REGISTERS: Registers = Registers {
    fp: RBP,
    count: 16,
    link: None,
    signs: false,
    names: &[
        "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15",
    ],
    signal,
};

const RBP: u16 = 6;

/// Where `rsp` and `rip` stand in the kernel's `ucontext`: behind five words of header and 15 or 16 registers.
const CONTEXT_RSP: i64 = 160;
const CONTEXT_RIP: i64 = 168;

/// `cfa = *(register + k)` and `ra = *(register + k + 8)`: both lie in a context at `register + k - 160`.
fn signal(state: &State<'_>) -> Option<Packed> {
    let (Cfa::Expression(stack), Place::Expression(instruction)) = (state.cfa, state.ra) else { return None };
    let Some(Expression::Deref { register, offset, added: 0 }) = recognize(stack) else { return None };
    let rip = offset.checked_add(CONTEXT_RIP - CONTEXT_RSP)?;
    if recognize(instruction) != Some(Expression::Register { register, offset: rip }) || register >= 16 {
        return None;
    }
    let offset = i32::try_from(offset.checked_sub(CONTEXT_RSP)?).ok()?;
    Some(Packed::of(&Rule { cfa: cfa::SIGNAL, register, offset, ..Rule::CANNOT }))
}
