//! Functions that end in `__builtin_eh_return`: libgcc's `_Unwind_RaiseException`,
//! `_Unwind_Resume`, `_Unwind_Resume_or_Rethrow` and `_Unwind_ForcedUnwind`.
//!
//! Such a function resumes at a landing pad. `uw_install_context_1` overwrites the registers that
//! the function saved, and its return address, by those of the landing pad's frame, one by one,
//! while its call frame information still describes them as the caller's:
//!
//! ```text
//!   cleanup    call _Unwind_Resume
//!   libgcc       uw_init_context_1(&this)        this.ra = return address into the cleanup
//!                ...
//!                uw_install_context_1(&this, &target)
//!                  saved rbx, rbp, r12 ... r15 = those of the landing pad's frame
//!                  return address = a call in the landing pad's function; the stack pointer is still the cleanup's
//!                rbp = saved rbp, rsp = target's, jump to the landing pad
//! ```
//!
//! In between, the call frame information gives the landing pad's function with the stack pointer
//! of another frame. gdb shows that function twice or stops. The return address stays in `this`, so
//! the rule takes it from there:
//!
//! ```text
//!   cfa = rbp + 16, rbp = ?, ra = [cfa - 408]
//! ```
//!
//! `rbp` is the cleanup's before it is overwritten and the landing pad's after that. No rule covers
//! both, so it is unknown: a caller whose frame starts from `rbp` ends the walk with a reason,
//! callers that saved it do not need it.
//!
//! Recognized by call frame information (the canonical frame address starts from `rcx` at the end)
//! and by the instructions around the calls, which gcc 10 to 16 emit alike. x86_64 only.

use std::ops::Range;

use ebpf_programs::abi::table::{Rule, cfa, fp, kept, ra};

use crate::table::rules::Packed;

/// A call of `uw_install_context_1` and the code behind it, and the offset of the return address
/// from the canonical frame address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Install {
    pub(crate) code: Range<usize>,
    pub(crate) return_address: i32,
}

/// The largest function that is read; libgcc's have 0x500 bytes.
pub(crate) const MAX_CODE: u64 = 4096;

/// Returns `true` if the rule is the one just before a function changes to the landing pad's stack:
/// `cfa = rcx + 8`.
pub(crate) fn is_end(rule: Packed) -> bool {
    rule.cfa() == cfa::REGISTER && rule.register() == RCX && rule.offset() == 8
}

/// Returns `true` if the call frame instructions contain that rule: `DW_CFA_def_cfa rcx, 8`.
pub(crate) fn has_end(instructions: &[u8]) -> bool {
    instructions.windows(3).any(|window| window == [0x0c, RCX, 8])
}

/// Returns `true` if the rule is that of a frame whose registers are overwritten: `cfa = rbp + 16`.
pub(crate) fn is_frame(rule: Packed) -> bool {
    rule.cfa() == cfa::REGISTER && rule.register() == RBP && rule.offset() == 16
}

/// Returns the rule while registers are overwritten. `kept` is the number of the register that the
/// table keeps, 0 for none.
pub(crate) fn rule(return_address: i32, kept: u8) -> Rule {
    let lost = if kept == 0 { 0 } else { kept::LOST << kept::SHIFT };
    Rule {
        cfa: cfa::REGISTER,
        register: RBP,
        ra: ra::SAVED | kept << kept::SHIFT,
        fp: fp::UNKNOWN | lost,
        offset: 16,
        aux: return_address,
        fp_offset: 0,
    }
}

const RCX: u8 = 2;
const RBP: u8 = 6;

/// Returns the parts of a function's code in which its saved registers are overwritten, in order.
///
/// ```text
///   48 8d 75 10            lea rsi, [rbp + 16]      the canonical frame address, and
///   48 8b 55 08            mov rdx, [rbp + 8]       the return address: arguments of uw_init_context_1
///   48 8d bd <this>        lea rdi, [rbp + this]    or by way of another register
///   e8 ....                call uw_init_context_1
///   ...
///   e8 ....                call uw_install_context_1                             ◄ from here
///   REX 8b .. <ra>         mov r, [rbp + ra]        target.ra, then
///   48 8b bd <ra - 8>      mov rdi, [rbp + ra - 8]  target.cfa: arguments of _Unwind_DebugHook
///   ...
///   48 89 cc               mov rsp, rcx                                          ◄ to here
/// ```
pub(crate) fn installs(code: &[u8]) -> Vec<Install> {
    let Some(this) = this_context(code) else { return Vec::new() };
    let mut installs = Vec::new();
    let mut at = 0;
    while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
        let end = is_install_call(code, rest).then(|| find(rest, &[0x48, 0x89, 0xcc])).flatten();
        at += match end {
            Some(end) => {
                let return_address = this + RA_IN_CONTEXT - 16;
                installs.push(Install { code: at..at + end, return_address });
                end
            }
            None => 1,
        };
    }
    installs
}

/// The return address in libgcc's `struct _Unwind_Context`: behind 18 pointers and the canonical
/// frame address.
const RA_IN_CONTEXT: i32 = 0x98;

/// Returns the distance from `rbp` of the context that `uw_init_context_1` fills for the function
/// itself.
fn this_context(code: &[u8]) -> Option<i32> {
    let cfa = find(code, &[0x48, 0x8d, 0x75, 0x10])?;
    let return_address = find(code, &[0x48, 0x8b, 0x55, 0x08])?;
    let from = cfa.max(return_address);
    let call = from + code.get(from..)?.windows(CALL).position(is_call)?;
    let mut contexts = [None; 16];
    for at in 0..call {
        let rest = &code[at..call];
        if let Some((LEA, register, distance)) = from_rbp(rest) {
            contexts[usize::from(register)] = Some(distance);
        } else if let Some(register) = copied_to_rdi(rest) {
            contexts[usize::from(RDI)] = contexts[usize::from(register)];
        }
    }
    contexts[usize::from(RDI)].filter(|this| (-0x1_0000..0).contains(this))
}

/// Returns `true` if code begins with the call of `uw_install_context_1`: `all` has to contain the
/// address of the context whose members are read behind it.
fn is_install_call(all: &[u8], code: &[u8]) -> bool {
    let Some(behind) = code.get(CALL..).filter(|_| is_call(&code[..CALL])) else { return false };
    let (Some((MOV, _, ra)), Some(next)) = (from_rbp(behind), behind.get(MEMBER..)) else { return false };
    let is_target =
        |at: usize| from_rbp(&all[at..]).is_some_and(|(code, _, it)| code == LEA && it == ra - RA_IN_CONTEXT);
    ra < 0 && from_rbp(next) == Some((MOV, RDI, ra - 8)) && (0..all.len()).any(is_target)
}

/// Size of a near call, and of an instruction with a distance from `rbp` in four bytes.
const CALL: usize = 5;
const MEMBER: usize = 7;

/// Returns `true` for a call within 16 MB: a byte of a number may look like a call, too.
fn is_call(code: &[u8]) -> bool {
    matches!(code, [0xe8, _, _, _, 0 | 0xff])
}

const LEA: u8 = 0x8d;
const MOV: u8 = 0x8b;
const RDI: u8 = 7;

/// Decodes an instruction with the operands register and `[rbp + distance]`: its code, the register
/// and the distance.
fn from_rbp(code: &[u8]) -> Option<(u8, u8, i32)> {
    let (&[rex @ (0x48 | 0x4c), code, modrm], rest) = code.split_first_chunk()? else { return None };
    let distance = i32::from_le_bytes(*rest.first_chunk()?);
    (modrm & 0b1100_0111 == 0b1000_0101).then_some((code, (rex & 4) << 1 | modrm >> 3 & 7, distance))
}

/// Decodes `mov rdi, register`.
fn copied_to_rdi(code: &[u8]) -> Option<u8> {
    let &[rex @ (0x48 | 0x4c), 0x89, modrm] = code.first_chunk()? else { return None };
    (modrm & 0b1100_0111 == 0b1100_0111).then_some((rex & 4) << 1 | modrm >> 3 & 7)
}

fn find(code: &[u8], wanted: &[u8]) -> Option<usize> {
    code.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `_Unwind_Resume` of gcc 12 without the instructions in between; `this` at `rbp - 544`,
    /// `target` at `rbp - 304`.
    fn resume(arguments: &[u8]) -> Vec<u8> {
        [
            &[0x55, 0x48, 0x89, 0xe5][..],
            &[0x48, 0x8d, 0x75, 0x10],                   // lea rsi, [rbp + 16]
            &[0x4c, 0x8d, 0xad, 0xd0, 0xfe, 0xff, 0xff], // lea r13, [rbp - 304]
            arguments,
            &[0x48, 0x8b, 0x55, 0x08],                   // mov rdx, [rbp + 8]
            &[0xe8, 0xb5, 0xf4, 0xff, 0xff],             // call uw_init_context_1
            &[0xe8, 0x43, 0xf5, 0xff, 0xff],             // call _Unwind_RaiseException_Phase2
            &[0x4c, 0x89, 0xee, 0x4c, 0x89, 0xe7],       // mov rsi, r13; mov rdi, r12
            &[0xe8, 0xcf, 0xd3, 0xff, 0xff],             // call uw_install_context_1
            &[0x48, 0x8b, 0xb5, 0x68, 0xff, 0xff, 0xff], // mov rsi, [rbp - 152]
            &[0x48, 0x8b, 0xbd, 0x60, 0xff, 0xff, 0xff], // mov rdi, [rbp - 160]
            &[0x48, 0x89, 0x74, 0x05, 0x08, 0x48, 0x8b, 0x6d, 0], // mov [rbp + rax + 8], rsi; mov rbp, [rbp]
            &[0x48, 0x89, 0xcc, 0x59, 0xff, 0xe1],       // mov rsp, rcx; pop rcx; jmp rcx
        ]
        .concat()
    }

    /// `lea r12, [rbp - 544]; mov rdi, r12`, and `lea rdi, [rbp - 544]` of gcc 16.
    const ARGUMENTS: [&[u8]; 2] = [
        &[0x4c, 0x8d, 0xa5, 0xe0, 0xfd, 0xff, 0xff, 0x4c, 0x89, 0xe7],
        &[0x48, 0x8d, 0xbd, 0xe0, 0xfd, 0xff, 0xff],
    ];

    #[test]
    fn finds_call_that_overwrites_saved_registers() {
        for arguments in ARGUMENTS {
            let code = resume(arguments);
            let call = 34 + arguments.len();
            let expected = Install { code: call + 1..code.len() - 6, return_address: -408 };
            assert_eq!(code[expected.code.start], 0xe8);
            assert_eq!(installs(&code), [expected]);
        }
    }

    #[test]
    fn finds_nothing_in_other_code() {
        let code = resume(ARGUMENTS[0]);
        for end in 0..code.len() - 4 {
            assert_eq!(installs(&code[..end]), [], "of {end} bytes");
        }
        // The context behind the call is none whose address the function takes.
        let mut other = code.clone();
        other[11] ^= 8;
        assert_eq!(installs(&other), []);
        assert_eq!(installs(&resume(&[])), [], "without the first argument");
        assert_eq!(installs(&code[8..]), [], "without the canonical frame address");
    }

    #[test]
    fn rule_takes_return_address_from_context() {
        let rule =
            |kept| crate::Rule::new(rule(-408, kept), ebpf_profiler_core::elf::Arch::X86_64).to_string();
        assert_eq!(rule(0), "cfa = rbp + 16, rbp = ?, ra = [cfa - 408]");
        assert_eq!(rule(3), "cfa = rbp + 16, rbp = ?, rbx = ?, ra = [cfa - 408]");
    }
}
