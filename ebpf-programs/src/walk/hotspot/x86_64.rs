//! Registers and instructions of HotSpot's port to x86_64.

use crate::machine::Machine;

/// The register with the address of the current bytecode in the interpreter, r13.
pub(super) const BYTECODE: u8 = 13;

/// The register with the return address while the interpreter builds a frame, rax.
pub(super) const RETURN_ADDRESS: u8 = 0;

/// The register with the stack pointer of the caller while the interpreter leaves a method, rbx.
pub(super) const CALLER_SP: u8 = 3;

/// Frame of compiled code at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The whole frame.
    Whole,
    /// The whole frame, but the caller's frame pointer is still in its register.
    Allocated,
    /// The saved frame pointer and the return address.
    Pushed,
    /// The same, and more words below them; the frame pointer points to the saved one.
    Linked,
    /// The return address alone.
    None,
}

/// Returns the extent of the frame if the next instruction is at `pc`; `is_prologue` if that precedes the end of the prologue.
///
/// ```text
///   prologue   mov %eax,-0x14000(%rsp); push %rbp; sub $n,%rsp          sub $n,%rsp; mov %rbp,n-16(%rsp)
///              push %rbp; mov %rsp,%rbp; sub $n,%rsp
///   its end    cmp $n,disarmed(%r15); jne stub                          cmp $n,disarmed(%r15); je next; call barrier
///   epilogue   add $n,%rsp; pop %rbp; cmp poll(%r15),%rsp; ja …; ret    … pop %rbp; mov poll(%r15),%r10; test %eax,(%r10); ret
/// ```
#[inline(always)]
pub(super) fn extent<M: Machine>(machine: &mut M, pc: u64, is_prologue: bool) -> Option<Extent> {
    let code = machine.read_memory(pc)?;
    let before = machine.read_memory(pc.wrapping_sub(8))?;
    let (one, two, three) = (code & 0xff, code & 0xffff, code & 0xff_ffff);
    let is_sub = three & 0xfd_ffff == SUB_RSP;
    if is_prologue {
        let is_after_push = before >> 56 == PUSH_RBP;
        let is_after_sub = before >> 32 & 0xff_ffff == SUB_RSP_8 || before >> 8 & 0xff_ffff == SUB_RSP;
        let is_linked = is_sub && before >> 40 == MOV_RBP_RSP;
        return Some(if (is_sub || three == MOV_RBP_RSP) && is_after_push || is_linked {
            Extent::Pushed
        } else if is_barrier(code, before) {
            Extent::Whole
        } else if is_after_sub && is_store(code) {
            Extent::Allocated
        } else if is_after_sub {
            Extent::Whole
        } else {
            Extent::None
        });
    }
    let is_poll = three == CMP_RSP_R15_32 || three == CMP_RSP_R15_8;
    let is_after_cmp = before >> 8 & 0xff_ffff == CMP_RSP_R15_32 || before >> 32 & 0xff_ffff == CMP_RSP_R15_8;
    let is_after_poll = two == JA && is_after_cmp;
    let is_old_poll =
        code & 0xffff_ffff == TEST_R10_RET || three == MOV_R10_R15_8 && code >> 32 == TEST_R10_RET;
    Some(if one == POP_RBP && is_end(code >> 8) {
        Extent::Pushed
    } else if one == RET || is_poll || is_after_poll || is_old_poll || is_far_poll(machine, code, pc) {
        Extent::None
    } else {
        Extent::Whole
    })
}

/// Returns `true` if code that starts at `start` has linked its frame before `pc`.
#[inline(always)]
pub(super) fn is_linked<M: Machine>(machine: &mut M, start: u64, pc: u64) -> bool {
    pc.wrapping_sub(start) >= 4
        && machine.read_memory(start).is_some_and(|code| code & 0xffff_ffff == PUSH_MOV)
}

/// Returns `true` if the code compares with the barrier's value, or branches on that.
#[inline(always)]
fn is_barrier(code: u64, before: u64) -> bool {
    let (two, three) = (code & 0xffff, code & 0xff_ffff);
    let is_compare = three == CMP_R15_8 || three == CMP_R15_32;
    let is_branch = before & 0xff_ffff == CMP_R15_8 && (two == JNE || two == JE_5);
    is_compare || is_branch || code & 0xff == CALL && before >> 48 == JE_5
}

/// Returns `true` if the interpreter takes the return address from the stack at `pc`, when it has left a method's frame.
#[inline(always)]
pub(super) fn is_return_popped<M: Machine>(machine: &mut M, pc: u64) -> bool {
    machine.read_memory(pc).is_some_and(|code| code & 0xff_ffff_ffff == POP_R13_MOV_RSP_RBX)
}

/// Returns `true` if an adapter has moved the return address from the stack to its register before `pc`, but not yet noted the stack pointer.
#[inline(always)]
pub(super) fn is_return_in_register<M: Machine>(machine: &mut M, pc: u64) -> bool {
    machine.read_memory(pc.wrapping_sub(1)).is_some_and(|code| code & 0xffff_ffff == POP_RAX_MOV_R13_RSP)
}

/// Returns the start of the static call stub around `pc`, by which compiled code calls a method that is interpreted.
///
/// ```text
///   mov $method,%rbx; jmp adapter
/// ```
#[inline(always)]
pub(super) fn static_call_stub<M: Machine>(machine: &mut M, pc: u64) -> Option<u64> {
    /// Size of the first instruction.
    const SIZE: u64 = 10;
    let code = machine.read_memory(pc)?;
    let is_first = code & 0xffff == MOV_RBX;
    if !is_first && code & 0xff != JMP {
        return None;
    }
    let start = if is_first { pc } else { pc.wrapping_sub(SIZE) };
    let other = machine.read_memory(if is_first { pc.wrapping_add(SIZE) } else { start })?;
    let is_stub = if is_first { other & 0xff == JMP } else { other & 0xffff == MOV_RBX };
    is_stub.then_some(start)
}

/// Returns `true` if the instruction stores the frame pointer in the frame.
#[inline(always)]
fn is_store(code: u64) -> bool {
    code & 0xffff_ffff == MOV_RBP_TO_FRAME_8 || code & 0xffff_ffff == MOV_RBP_TO_FRAME_32
}

/// Returns `true` if the code polls for a safepoint and returns, or returns.
#[inline(always)]
fn is_end(code: u64) -> bool {
    let (one, three) = (code & 0xff, code & 0xff_ffff);
    one == RET
        || three == CMP_RSP_R15_32
        || three == CMP_RSP_R15_8
        || three == MOV_R10_R15_8
        || three == MOV_R10_R15_32
        || three == TEST_R10
}

/// Returns `true` if the code loads the address of the polling page with a long offset, tests it and returns.
#[inline(always)]
fn is_far_poll<M: Machine>(machine: &mut M, code: u64, pc: u64) -> bool {
    code & 0xff_ffff == MOV_R10_R15_32
        && machine.read_memory(pc.wrapping_add(7)).is_some_and(|code| code & 0xffff_ffff == TEST_R10_RET)
}

const PUSH_RBP: u64 = 0x55;
const POP_RBP: u64 = 0x5d;
/// `pop %r13; mov %rbx,%rsp`.
const POP_R13_MOV_RSP_RBX: u64 = 0xe3_8b_48_5d_41;
/// `pop %rax; mov %rsp,%r13`.
const POP_RAX_MOV_R13_RSP: u64 = 0xec_8b_4c_58;
/// `push %rbp; mov %rsp,%rbp`.
const PUSH_MOV: u64 = 0xec_8b_48_55;
const MOV_RBP_RSP: u64 = 0xec_8b_48;
const MOV_RBX: u64 = 0xbb_48;
const JMP: u64 = 0xe9;
const CALL: u64 = 0xe8;
const JNE: u64 = 0x85_0f;
/// `je` beyond a call.
const JE_5: u64 = 0x05_74;
/// `cmp $n,disarmed(%r15)` with four bytes of `n`.
const CMP_R15_8: u64 = 0x7f_81_41;
const CMP_R15_32: u64 = 0xbf_81_41;
const RET: u64 = 0xc3;
/// `sub $n,%rsp` with four bytes of `n`; with one byte the second byte is 83 instead of 81.
const SUB_RSP: u64 = 0xec_81_48;
const SUB_RSP_8: u64 = 0xec_83_48;
const MOV_RBP_TO_FRAME_8: u64 = 0x24_6c_89_48;
const MOV_RBP_TO_FRAME_32: u64 = 0x24_ac_89_48;
const CMP_RSP_R15_32: u64 = 0xa7_3b_49;
const CMP_RSP_R15_8: u64 = 0x67_3b_49;
const JA: u64 = 0x87_0f;
const MOV_R10_R15_8: u64 = 0x57_8b_4d;
const MOV_R10_R15_32: u64 = 0x97_8b_4d;
const TEST_R10: u64 = 0x02_85_41;
const TEST_R10_RET: u64 = 0xc3_02_85_41;
