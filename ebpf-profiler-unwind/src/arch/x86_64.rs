//! x86_64.

use ebpf_programs::abi::table::{Rule, cfa, fp};

use crate::eh_frame::expression::{Expression, recognize};
use crate::eh_frame::state::{Cfa, Place, State};

use crate::table::rules::Packed;

use super::{Go, Registers};

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
    go: Go {
        row: go_row,
        unsaved: go_unsaved,
        switched: Some(Packed::of(&GO_SWITCHED)),
        signal_return: Some(Packed::of(&Rule { cfa: cfa::SIGNAL, register: RSP, ..Rule::CANNOT })),
    },
};

const RBP: u16 = 6;
const RSP: u8 = 7;

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

/// A frame keeps the caller's frame pointer below the return address; a function without a frame leaves it alone.
fn go_row(distance: i32) -> Option<Packed> {
    let frame = Rule { cfa: cfa::REGISTER, register: RSP, offset: distance.checked_add(8)?, ..Rule::CANNOT };
    match distance {
        ..0 => None,
        0..8 => Some(Packed::of(&frame)),
        _ => Some(Packed::of(&Rule { fp: fp::SAVED, fp_offset: -16, ..frame })),
    }
}

/// `sub rsp, distance` is done, `mov [rsp + distance - 8], rbp` is next: four bytes, and the number where it isn't 0.
fn go_unsaved(distance: i32) -> Option<(Packed, u64)> {
    let size = match distance.checked_sub(8)? {
        ..0 => return None,
        0 => 4,
        1..128 => 5,
        _ => 8,
    };
    let frame = Rule { cfa: cfa::REGISTER, register: RSP, offset: distance.checked_add(8)?, ..Rule::CANNOT };
    Some((Packed::of(&frame), size))
}

/// The frame pointer stays the caller's on the new stack, so the way goes on behind that caller's frame.
const GO_SWITCHED: Rule = Rule {
    cfa: cfa::REGISTER,
    register: RBP as u8,
    offset: 16,
    fp: fp::SAVED,
    fp_offset: -16,
    ..Rule::CANNOT
};
