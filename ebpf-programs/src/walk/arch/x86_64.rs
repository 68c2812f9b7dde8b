//! The x86_64 architecture.

use super::{Arch, CallInstruction, HalfFrame, HalfState, LinkedFrame};
use crate::abi::compiled::MAX_PROLOGUE;
use crate::abi::registers::{Registers, x86_64};
use crate::machine::Machine;
use crate::walk::is_null;

/// Instructions, first byte lowest.
const PUSH_RBP: u64 = 0x55;
const RET: u64 = 0xc3;
const RET_N: u64 = 0xc2;
const ENDBR64: u64 = 0xfa1e_0ff3;
const MOV_RBP_RSP: [u64; 2] = [0xe58948, 0xec8b48];
const PUSH_MOV: [u64; 2] = [0xe589_4855, 0xec8b_4855];

/// The x86_64 architecture.
#[derive(Clone, Copy, Debug)]
pub struct X86_64;

impl Arch for X86_64 {
    const SP: usize = x86_64::SP;
    const FP: usize = x86_64::FP;
    const RETURN_BELOW: u64 = 8;
    // A ucontext: 40 bytes, then r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
    const SIGNAL_FP: u64 = 120;
    const SIGNAL_SP: u64 = 160;
    const SIGNAL_PC: u64 = 168;
    const SIGNAL_LINK: Option<(u8, u64)> = None;
    const UPROBE_SLOT: u64 = 128;
    // rdi
    const JS_FUNCTION: usize = 5;
    // r12 and r13, r14 and r15, rdi and rsi
    const RUBY: [[usize; 2]; 3] = [[12, 13], [14, 15], [5, 4]];
    // rbx
    const BEAM_REGISTERS: usize = 3;

    #[inline(always)]
    fn strip(address: u64) -> u64 {
        address
    }

    #[inline(always)]
    fn prologue<M: Machine>(machine: &mut M, pc: u64) -> Option<u64> {
        if is_null(pc) {
            // A call through a null pointer; no instruction ran.
            return Some(0);
        }
        let code = machine.read_memory(pc)?;
        let (one, three, four) = (code & 0xff, code & 0xff_ffff, code & 0xffff_ffff);
        if one == PUSH_RBP || one == RET || four == ENDBR64 {
            Some(0)
        } else if three == MOV_RBP_RSP[0] || three == MOV_RBP_RSP[1] {
            Some(8)
        } else {
            None
        }
    }

    /// Recognizes `add rsp, n; ret`.
    #[inline(always)]
    fn epilogue<M: Machine>(machine: &mut M, address: u64) -> Option<u64> {
        const ADD_RSP_RET: u64 = 0xc3_00c4_8348;
        let code = machine.read_memory(address)?;
        let bytes = code >> 24 & 0x7f;
        (code & 0xff_80ff_ffff == ADD_RSP_RET && bytes & 7 == 0).then_some(bytes)
    }

    /// Recognizes `pop r11; pop rcx; ret`.
    #[inline(always)]
    fn returns_behind<M: Machine>(machine: &mut M, pc: u64) -> Option<u64> {
        let code = machine.read_memory(pc)?;
        if code as u32 == 0xc359_5b41 {
            Some(16)
        } else if code & 0xffff == 0xc359 {
            Some(8)
        } else if code & 0xff == RET {
            Some(0)
        } else {
            None
        }
    }

    /// Recognizes `e8 rel32`, and `ff /2` of two to seven bytes.
    #[inline(always)]
    fn call_before<M: Machine>(machine: &mut M, address: u64) -> CallInstruction {
        let Some(code) = machine.read_memory(address.wrapping_sub(8)) else { return CallInstruction::None };
        if code >> 24 & 0xff == 0xe8 {
            let distance = (code >> 32) as u32 as i32;
            return CallInstruction::Direct(address.wrapping_add(distance as i64 as u64));
        }
        let indirect = is_indirect(code >> 48)
            || is_indirect(code >> 40)
            || is_indirect(code >> 32)
            || is_indirect(code >> 16)
            || is_indirect(code >> 8);
        if indirect { CallInstruction::Indirect } else { CallInstruction::None }
    }

    /// Recognizes `ff d0` to `ff d7`; those of r8 to r15 have a prefix.
    #[inline(always)]
    fn calls_register<M: Machine>(machine: &mut M, address: u64) -> bool {
        machine.read_memory(address.wrapping_sub(8)).is_some_and(|code| code >> 48 & 0xf8ff == 0xd0ff)
    }

    /// Recognizes a call that passes the address of a struct, whose first word is written just before:
    ///
    /// ```text
    ///   mov rdi, reg           48 89 c7        or   lea rdi, [rsp + n]     48 8d 7c 24 n
    ///   mov [rsp], reg         48 89 04 24     or   mov [rsp + n], reg     48 89 44 24 n
    ///   call reg               ff d0
    /// ```
    #[inline(always)]
    fn stack_argument<M: Machine>(machine: &mut M, address: u64) -> Option<u64> {
        let code = machine.read_memory(address.wrapping_sub(8))?;
        if code >> 48 & 0xf8ff != 0xd0ff {
            return None;
        }
        let (size, distance) = if code >> 16 & 0xffc7_fffb == 0x2404_8948 {
            (6, 0)
        } else if code >> 8 & 0xffc7_fffb == 0x2444_8948 {
            (7, code >> 40 & 0xff)
        } else {
            return None;
        };
        let before = machine.read_memory(address.wrapping_sub(size + 8))?;
        let moves = before >> 40 & 0xc7_fffb == 0xc7_8948;
        let loads = before >> 24 & 0xffff_ffff == 0x247c_8d48 && before >> 56 == distance;
        (moves || loads).then_some(distance)
    }

    /// Recognizes `endbr64`, `push rbp`, `mov rbp, rsp`, `ret` and `ret n` at `pc`, and `push rbp; mov rbp, rsp` before it.
    #[inline(always)]
    fn linked_frame<M: Machine>(machine: &mut M, pc: u64, prologue: u64) -> LinkedFrame {
        let code = match machine.read_memory(pc) {
            Some(code) => code,
            // The last instructions before the end of a mapping; an aligned word doesn't cross it.
            None => machine.read_memory(pc & !7).unwrap_or(0) >> (pc % 8 * 8),
        };
        let (one, three, four) = (code & 0xff, code & 0xff_ffff, code & 0xffff_ffff);
        if one == PUSH_RBP || four == ENDBR64 {
            return LinkedFrame::Entered;
        }
        if three == MOV_RBP_RSP[0] || three == MOV_RBP_RSP[1] {
            return LinkedFrame::Saved;
        }
        if one == RET || one == RET_N {
            return LinkedFrame::Left;
        }
        if is_behind_prologue(machine, pc, prologue) { LinkedFrame::Linked } else { LinkedFrame::Whole }
    }

    /// Recognizes at most six `pop`, then `ret`; or a jump behind `pop` or `add rsp, n`.
    #[inline(always)]
    fn bytes_to_return<M: Machine>(machine: &mut M, pc: u64, saves_fp: bool) -> Option<u64> {
        const POP_RBP: u64 = 0x5d;
        const ADD_RSP: u64 = 0xc4_8348;
        let code = machine.read_object(pc.wrapping_sub(8), 24)?;
        let (before, mut code, mut rest) = (code[0], code[1], code[2]);
        let mut popped = 0;
        while popped < 6 {
            let size = if code & 0xf8 == 0x58 {
                8
            } else if code & 0xf8ff == 0x5841 {
                16
            } else {
                break;
            };
            code = code >> size | rest << (64 - size);
            rest >>= size;
            popped += 1;
        }
        if code & 0xff == RET {
            return Some(popped * 8);
        }
        let is_behind_pop = saves_fp && before >> 56 == POP_RBP;
        let is_behind_add = before >> 32 & 0xff_ffff == ADD_RSP;
        let is_end = popped > 0 || is_behind_pop || is_behind_add;
        // `jmp rel32`, and `ff /4` with or without a prefix.
        let code = if code & 0xf0 == 0x40 { code >> 8 } else { code };
        let is_jump = code & 0xff == 0xe9 || code & 0x38ff == 0x20ff;
        (is_end && is_jump).then_some(popped * 8)
    }

    /// Recognizes `mov rsp, rbp` before `mov rsp, [r13 + n]`, in 40 bytes.
    #[inline(always)]
    fn returns_to_fp<M: Machine>(machine: &mut M, pc: u64) -> bool {
        const MOV_RSP_RBP: u64 = 0xec_8948;
        const MOV_RSP_R13: u64 = 0x25_8b49;
        let Some(code) = machine.read_object(pc, 48) else { return false };
        // A bit for each of the bytes at which the instructions begin; without a branch for each.
        let (mut from_fp, mut from_memory) = (0u64, 0u64);
        let mut at = 0;
        while at < 40 {
            let (word, shift) = (at / 8, at % 8 * 8);
            let high = if shift == 0 { 0 } else { code[word + 1] << (64 - shift) };
            let three = (code[word] >> shift | high) & 0xff_ffff;
            from_fp |= (three ^ MOV_RSP_RBP).wrapping_sub(1) >> 63 << at;
            from_memory |= ((three & 0x3f_ffff) ^ MOV_RSP_R13).wrapping_sub(1) >> 63 << at;
            at += 1;
        }
        // The lower of the lowest bits.
        from_fp != 0
            && (from_memory == 0
                || from_fp & from_fp.wrapping_neg() < from_memory & from_memory.wrapping_neg())
    }

    /// Recognizes, at `pc`:
    ///
    /// | instructions | state |
    /// | --- | --- |
    /// | at most 24 bytes without `jmp rcx`, then `push rbp; mov rbp, rsp` | `Entered` |
    /// | `mov rbp, rsp`, after `push rbp` | `Pushed` |
    /// | `mov ebx, n`, `movabs r12, n`, or nothing, then `call` | `Calling` |
    /// | `pop rbp` | `Ending` |
    /// | `ret`; `cmp reg, n` after `pop rbp` or `leave`; `jg` over `ret n`; `pop r8` to `pop r15` before `lea rsp, …`; `pop rcx; add rsp, rbx; push rcx` | `Left` |
    /// | `lea rsp, [rsp + reg * 8]; push reg`; `push reg; ret`; `add rsp, rbx; push rcx` | `Returning` |
    #[inline(always)]
    fn half_frame<M: Machine>(machine: &mut M, pc: u64, registers: &Registers) -> HalfFrame {
        const RCX: usize = 2;
        const RBX: usize = 3;
        let Some(code) = machine.read_object(pc.wrapping_sub(1), 40) else {
            return HalfFrame::of(HalfState::Whole);
        };
        let before = code[0] & 0xff;
        let next = [
            code[0] >> 8 | code[1] << 56,
            code[1] >> 8 | code[2] << 56,
            code[2] >> 8 | code[3] << 56,
            code[3] >> 8 | code[4] << 56,
        ];
        let code = next[0];
        let (one, two, three) = (code & 0xff, code & 0xffff, code & 0xff_ffff);
        if before == 0x55 && (three == MOV_RBP_RSP[0] || three == MOV_RBP_RSP[1]) {
            return HalfFrame::of(HalfState::Pushed);
        }
        if one == 0x5d {
            return HalfFrame::of(HalfState::Ending);
        }
        // The three instructions before baseline code calls its prologue.
        let call = if one == 0xe8 {
            Some((5, code >> 8))
        } else if two == 0xbc49 && next[1] >> 16 & 0xff == 0xe8 {
            Some((15, next[1] >> 24))
        } else if one == 0xbb && code >> 40 & 0xffff == 0xbc49 && next[1] >> 56 == 0xe8 {
            Some((20, next[2]))
        } else {
            None
        };
        if let Some((length, distance)) = call {
            let distance = distance as u32 as i32 as i64 as u64;
            let address = pc.wrapping_add(length).wrapping_add(distance);
            return HalfFrame { state: HalfState::Calling, address, sp: 0 };
        }
        if is_before_prologue(&next) {
            return HalfFrame::of(HalfState::Entered);
        }
        let is_popped = before == 0x5d || before == 0xc9;
        let is_compare = three & 0xf8_fdfe == 0xf8_8148;
        let pops_rcx = one == 0x59 && code >> 32 & 0xffff == 0xc351;
        let is_below = one == 0xc2
            || is_popped && (one == 0xc3 || is_compare)
            || code & 0xff_00ff == 0xc2_007f
            || code << 8 == 0xc200_0000_038f_0f00
            || code & 0xfffd_f8ff == 0x8d48_5841
            || pops_rcx;
        if is_below || one == 0xc3 {
            return HalfFrame::of(if is_below { HalfState::LeftBelow } else { HalfState::Left });
        }
        let sp = registers.values[x86_64::SP];
        let (rcx, rbx) = (registers.values[RCX], registers.values[RBX]);
        let pushed = |code: u64| registers.values[8 | (code >> 8) as usize & 7];
        if code & 0xc7ff_fffd == 0xc424_8d48 && code >> 32 & 0xf8ff == 0x5041 {
            // The index of the address; DWARF exchanges the registers 1 and 2. In two arrays of eight, because the verifier of 6.1
            // derives no bound from a disjunction.
            let number = (code >> 27 & 7) as usize;
            let index = if number == 1 || number == 2 { 3 - number } else { number };
            let is_new = code & 2 != 0;
            let words = if is_new { registers.values[8 | number] } else { registers.values[index & 7] };
            HalfFrame {
                state: HalfState::Returning,
                address: pushed(code >> 32),
                sp: sp.wrapping_add(words.wrapping_mul(8)),
            }
        } else if three & 0xff_f8ff == 0xc3_5041 {
            HalfFrame { state: HalfState::Returning, address: pushed(code), sp }
        } else if code & 0xff_00ff == 0xe3_0048 && code >> 24 & 0xffff == 0xc351 {
            HalfFrame { state: HalfState::Returning, address: rcx, sp: sp.wrapping_add(rbx) }
        } else if two == 0xc351 {
            HalfFrame { state: HalfState::Returning, address: rcx, sp }
        } else {
            HalfFrame::of(HalfState::Whole)
        }
    }
}

/// Returns `true` if `push rbp; mov rbp, rsp` begins less than `size` bytes before `pc`, and ends there or before it.
#[inline(always)]
fn is_behind_prologue<M: Machine>(machine: &mut M, pc: u64, size: u64) -> bool {
    /// Size of the instructions.
    const LEAST: u64 = 4;
    if size <= LEAST {
        return false;
    }
    // Aligned words, because others may cross the start of the code. Two at a time, because the kernel side has little stack.
    let mut at = (pc & !7).wrapping_sub(32);
    let mut word = machine.read_memory(at).unwrap_or(0);
    // A bit for each of the bytes at which the instructions begin; without a branch for each.
    let mut found = 0u64;
    let mut number = 0;
    while number < 5 {
        at = at.wrapping_add(8);
        let next = if number < 4 { machine.read_memory(at).unwrap_or(0) } else { 0 };
        let mut byte = 0;
        while byte < 8 {
            let high = if byte == 0 { 0 } else { next << (64 - 8 * byte) };
            let four = (word >> (8 * byte) | high) & 0xffff_ffff;
            let is_found =
                ((four ^ PUSH_MOV[0]).wrapping_sub(1) | (four ^ PUSH_MOV[1]).wrapping_sub(1)) >> 63;
            found |= is_found << (8 * number + byte);
            byte += 1;
        }
        word = next;
        number += 1;
    }
    let pc_at = 32 + (pc & 7);
    let size = if size > MAX_PROLOGUE { MAX_PROLOGUE } else { size };
    let up_to = (1 << (pc_at - LEAST + 1)) - 1;
    let before = (1 << (pc_at - size + 1)) - 1;
    found & up_to & !before != 0
}

/// Returns `true` if the low two bytes start an indirect call.
#[inline(always)]
fn is_indirect(code: u64) -> bool {
    code & 0x38ff == 0x10ff
}

/// Returns `true` if `push rbp; mov rbp, rsp` begins within the first 24 of these 32 bytes. In code of regular expressions it
/// stands behind a jump at the end, `jmp rcx`, and doesn't count.
#[inline(always)]
fn is_before_prologue(next: &[u64; 4]) -> bool {
    // jmp rcx; push rbp; …
    const JUMP_PUSH: u64 = 0x4855_e1ff;
    // Without a branch for each byte: the sum of two words is above 0 if one of them is the pattern.
    let (mut found, mut is_behind_jump) = (0, 0);
    let mut at = 0;
    while at < 24 {
        let (word, shift) = (at / 8, at % 8 * 8);
        let high = if shift == 0 { 0 } else { next[word + 1] << (64 - shift) };
        let four = (next[word] >> shift | high) & 0xffff_ffff;
        found |= (four ^ PUSH_MOV[0]).wrapping_sub(1) | (four ^ PUSH_MOV[1]).wrapping_sub(1);
        is_behind_jump |= (four ^ JUMP_PUSH).wrapping_sub(1);
        at += 1;
    }
    (found & !is_behind_jump) >> 63 != 0
}
