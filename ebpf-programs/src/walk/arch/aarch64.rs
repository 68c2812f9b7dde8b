//! The arm64 architecture.

use super::{Arch, CallInstruction, HalfFrame, HalfState, LinkedFrame};
use crate::abi::registers::{Registers, aarch64};
use crate::machine::Machine;

/// The arm64 architecture.
#[derive(Clone, Copy, Debug)]
pub struct Aarch64;

impl Arch for Aarch64 {
    const SP: usize = aarch64::SP;
    const FP: usize = aarch64::FP;
    const RETURN_BELOW: u64 = 0;
    // A ucontext of 176 bytes with padding, the fault address, then x0 to x30, sp, pc.
    const SIGNAL_FP: u64 = 176 + 8 + 29 * 8;
    const SIGNAL_SP: u64 = 176 + 8 + 31 * 8;
    const SIGNAL_PC: u64 = 176 + 8 + 32 * 8;
    const SIGNAL_LINK: Option<(u8, u64)> = Some((aarch64::LR as u8, 176 + 8 + 30 * 8));
    const UPROBE_SLOT: u64 = 4;

    const JS_FUNCTION: usize = 1;
    // x20 and x19; RJIT has no code for arm64; x0 and x1
    const RUBY: [[usize; 2]; 3] = [[20, 19], [20, 19], [0, 1]];
    // x19
    const BEAM_REGISTERS: usize = 19;

    /// Keeps the low 48 bits; a signature is in the bits above them.
    #[inline(always)]
    fn strip(address: u64) -> u64 {
        address & 0xffff_ffff_ffff
    }

    #[inline(always)]
    fn prologue<M: Machine>(_: &mut M, _: u64) -> Option<u64> {
        None
    }

    #[inline(always)]
    fn epilogue<M: Machine>(_: &mut M, _: u64) -> Option<u64> {
        None
    }

    /// Recognizes `bl`, and `blr` with its authenticating variants.
    #[inline(always)]
    fn call_before<M: Machine>(machine: &mut M, address: u64) -> CallInstruction {
        let from = address.wrapping_sub(4);
        let Some(code) = machine.read_memory(from) else { return CallInstruction::None };
        let code = code as u32;
        if code >> 26 == 0b100101 {
            // 26 bits, signed, in instructions.
            let distance = ((code << 6) as i32 >> 4) as i64;
            return CallInstruction::Direct(from.wrapping_add(distance as u64));
        }
        if code & 0xfeff_f000 == 0xd63f_0000 { CallInstruction::Indirect } else { CallInstruction::None }
    }

    #[inline(always)]
    fn calls_register<M: Machine>(machine: &mut M, address: u64) -> bool {
        Self::call_before(machine, address) == CallInstruction::Indirect
    }

    #[inline(always)]
    fn stack_argument<M: Machine>(_: &mut M, _: u64) -> Option<u64> {
        None
    }

    #[inline(always)]
    fn linked_frame<M: Machine>(_: &mut M, _: u64, _: u64) -> LinkedFrame {
        LinkedFrame::Whole
    }

    #[inline(always)]
    fn bytes_to_return<M: Machine>(_: &mut M, _: u64, _: bool) -> Option<u64> {
        None
    }

    #[inline(always)]
    fn returns_to_fp<M: Machine>(_: &mut M, _: u64) -> bool {
        false
    }

    #[inline(always)]
    fn half_frame<M: Machine>(_: &mut M, _: u64, _: &Registers) -> HalfFrame {
        HalfFrame::of(HalfState::Whole)
    }
}
