//! The x86_64 architecture.

use super::{Arch, CallInstruction};
use crate::abi::registers::x86_64;
use crate::machine::Machine;
use crate::walk::is_null;

/// The x86_64 architecture.
#[derive(Clone, Copy, Debug)]
pub struct X86_64;

impl Arch for X86_64 {
    const SP: usize = x86_64::SP;
    const FP: usize = x86_64::FP;
    // A ucontext: 40 bytes, then r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
    const SIGNAL_FP: u64 = 120;
    const SIGNAL_SP: u64 = 160;
    const SIGNAL_PC: u64 = 168;

    #[inline(always)]
    fn strip(address: u64) -> u64 {
        address
    }

    #[inline(always)]
    fn prologue<M: Machine>(machine: &mut M, pc: u64) -> Option<u64> {
        const PUSH_RBP: u64 = 0x55;
        const RET: u64 = 0xc3;
        const ENDBR64: u64 = 0xfa1e_0ff3;
        const MOV_RBP_RSP: [u64; 2] = [0xe58948, 0xec8b48];
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
}

/// Returns `true` if the low two bytes start an indirect call.
#[inline(always)]
fn is_indirect(code: u64) -> bool {
    code & 0x38ff == 0x10ff
}
