//! x86_64.

use ebpf_programs::abi::table::{Rule, cfa, fp};

use crate::eh_frame::expression::{Expression, recognize};
use crate::eh_frame::state::{Cfa, Place, State};
use crate::eh_return;

use crate::table::rules::Packed;

use super::{Go, NONE, Part, Registers};

pub(crate) static REGISTERS: Registers = Registers {
    fp: RBP,
    // rbx. On a whole Debian system, frames start from r12 to r15 for a few instructions only, without a
    // call.
    saved: &[3],
    kept: NONE,
    count: 16,
    link: None,
    signs: false,
    names: &[
        "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15",
    ],
    signal,
    is_eh_return: eh_return::is_end,
    finds_eh_return: false,
    go: Go {
        row: go_row,
        unsaved: go_unsaved,
        switched: Some(Packed::of(&GO_SWITCHED)),
        calls_c: go_calls_c,
        signal_return: Some(Packed::of(&Rule { cfa: cfa::SIGNAL, register: RSP, ..Rule::CANNOT })),
    },
};

const RBP: u16 = 6;
const RSP: u8 = 7;

/// Offsets of `rsp` and `rip` in the kernel's `ucontext`: behind five words of header and 15 or 16
/// registers.
const CONTEXT_RSP: i64 = 160;
const CONTEXT_RIP: i64 = 168;

/// `cfa = *(register + k)` and `ra = *(register + k + 8)`: both are in a context at `register + k -
/// 160`.
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

/// A frame saves the caller's frame pointer below the return address; a function without a frame
/// leaves it unchanged.
fn go_row(distance: i32) -> Option<Packed> {
    let frame = Rule { cfa: cfa::REGISTER, register: RSP, offset: distance.checked_add(8)?, ..Rule::CANNOT };
    match distance {
        ..0 => None,
        0..8 => Some(Packed::of(&frame)),
        _ => Some(Packed::of(&Rule { fp: fp::SAVED, fp_offset: -16, ..frame })),
    }
}

/// Between `sub rsp, distance` and the end of `mov [rsp + distance - 8], rbp`: four bytes, and the
/// displacement if it isn't 0.
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

/// The frame pointer is still the caller's on the new stack, so the unwind continues behind that
/// caller's frame.
const GO_SWITCHED: Rule = Rule {
    cfa: cfa::REGISTER,
    register: RBP as u8,
    offset: 16,
    fp: fp::SAVED,
    fp_offset: -16,
    ..Rule::CANNOT
};

/// The two paths of `runtime.asmcgocall`: on a goroutine's stack, which may be moved before C
/// returns, and on a stack that stays in place. Each saves the stack pointer differently.
///
/// ```text
///   mov [rsp + n + 8], rdi      # the goroutine          mov [rsp + n + 8], 0
///   mov rdi, [rdi + 8]          # the end of its stack
///   sub rdi, rdx                # the depth
///   mov [rsp + n], rdi                                   mov [rsp + n], rdx
///   ...  ◄──────── from here ─────────────────────────── ...
///   mov rsp, rsi  ◄── to here ────────────────────────── mov rsp, rsi
/// ```
fn go_calls_c(code: &[u8]) -> Vec<Part> {
    const PUSH_RBP: u8 = 0x55;
    const BACK: [u8; 3] = [0x48, 0x89, 0xf4];
    let frame = if code.first() == Some(&PUSH_RBP) {
        Rule { aux: 16, fp: fp::SAVED, fp_offset: -16, ..Rule::CANNOT }
    } else {
        Rule { aux: 8, ..Rule::CANNOT }
    };
    let mut ranges = Vec::new();
    let mut goroutine = None;
    let mut from = None;
    for at in 0..code.len() {
        let rest = &code[at..];
        match (go_store(rest), goroutine) {
            (Some((_, offset, RDI)), None) => goroutine = Some(offset),
            (Some((size, offset, RDI | RDX)), Some(place)) if offset + 8 == place => {
                from = Some((at + size, offset))
            }
            _ => {}
        }
        if rest.starts_with(&BACK)
            && let Some((from, offset)) = from.take()
        {
            let rule = Rule { cfa: cfa::DEPTH, register: RSP, offset, ..frame };
            ranges.push((from..at + BACK.len(), Packed::of(&rule)));
        }
    }
    ranges
}

const RDX: u8 = 2;
const RDI: u8 = 7;

/// Decodes `mov [rsp + offset], register`: size, offset and register.
fn go_store(code: &[u8]) -> Option<(usize, i32, u8)> {
    let &[0x48, 0x89, modrm, 0x24, ref rest @ ..] = code else { return None };
    match modrm & 0b1100_0111 {
        0b0000_0100 => Some((4, 0, modrm >> 3)),
        0b0100_0100 => Some((5, i32::from(rest.first()?.cast_signed()), modrm >> 3 & 7)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assembles the two paths of `asmcgocall` behind `entry`, with slots `at` and `at + 8`.
    fn asmcgocall(entry: &[u8], at: u8) -> Vec<u8> {
        let goroutine = [0x48, 0x89, 0x7c, 0x24, at + 8, 0x48, 0x8b, 0x7f, 0x08, 0x48, 0x29, 0xd7];
        let slot = |register: u8| match at {
            0 => vec![0x48, 0x89, register << 3 | 0x04, 0x24],
            _ => vec![0x48, 0x89, register << 3 | 0x44, 0x24, at],
        };
        let call_and_back = [0xff, 0xd0, 0x48, 0x89, 0xf4];
        [entry, &goroutine, &slot(RDI), &call_and_back, &[0xc3], &slot(RDX), &call_and_back, &[0xc3]].concat()
    }

    #[test]
    fn calls_of_c_go_on_where_the_goroutine_has_its_stack_by_now() {
        for (entry, at, aux, (fp, fp_offset)) in
            [(&[0x55][..], 0, 16, (fp::SAVED, -16)), (&[0x90], 40, 8, (fp::SAME, 0))]
        {
            let code = asmcgocall(entry, at);
            let rule = Packed::of(&Rule {
                cfa: cfa::DEPTH,
                register: RSP,
                offset: at.into(),
                aux,
                fp,
                fp_offset,
                ..Rule::CANNOT
            });
            let slot = if at == 0 { 4 } else { 5 };
            let first = entry.len() + 12 + slot;
            let second = first + 6 + slot;
            assert_eq!(go_calls_c(&code), [(first..first + 5, rule), (second..second + 5, rule)]);
            for end in 0..code.len() {
                go_calls_c(&code[..end]);
            }
        }
    }
}
