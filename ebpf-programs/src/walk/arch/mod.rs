//! Architectures: the only code that names registers and instructions.
//!
//! Signal frames: [x86_64](https://github.com/torvalds/linux/blob/v6.12/arch/x86/include/uapi/asm/sigcontext.h),
//! [arm64](https://github.com/torvalds/linux/blob/v6.12/arch/arm64/kernel/signal.c).

mod aarch64;

mod x86_64;

use crate::abi::registers::Registers;
use crate::machine::Machine;

pub use aarch64::Aarch64;
pub use x86_64::X86_64;

/// The architecture that this library is compiled for.
#[cfg(target_arch = "aarch64")]
pub type Host = Aarch64;

/// The architecture that this library is compiled for.
#[cfg(not(target_arch = "aarch64"))]
pub type Host = X86_64;

/// An architecture.
pub trait Arch {
    /// The DWARF number of the stack pointer.
    const SP: usize;
    /// The DWARF number of the frame pointer.
    const FP: usize;
    /// Distance from the word that holds a frame's return address to its caller's stack pointer, in bytes. Where a register holds the
    /// return address at a call, that word is at the stack pointer for the kernel.
    const RETURN_BELOW: u64;
    /// Byte offset of the interrupted program counter in the kernel's `ucontext`, the context of a signal frame.
    const SIGNAL_PC: u64;
    /// Byte offset of the interrupted stack pointer in that context.
    const SIGNAL_SP: u64;
    /// Byte offset of the interrupted frame pointer in that context.
    const SIGNAL_FP: u64;
    /// DWARF number of the register that holds a leaf's return address, and byte offset of the interrupted one in that context;
    /// `None` if calls push it.
    const SIGNAL_LINK: Option<(u8, u64)>;
    /// Size of the kernel's copy of an instruction that a uprobe replaced, in bytes.
    const UPROBE_SLOT: u64;

    /// The DWARF number of the register in which V8's code passes the called function.
    const JS_FUNCTION: usize;

    /// The DWARF numbers of the registers in which code that Ruby's compilers made keeps the execution context and the control
    /// frame: those of YJIT, those of RJIT, and those that pass both to compiled code.
    const RUBY: [[usize; 2]; 3];

    /// The DWARF number of the register in which BEAM's code keeps the address of the scheduler's registers.
    const BEAM_REGISTERS: usize;

    /// Strips the signature that the CPU may have put into the upper bits of a code address.
    fn strip(address: u64) -> u64;

    /// Returns the number of bytes from the stack pointer to the return address if `pc`, the next instruction, is in a
    /// prologue: 0, or the size of the saved frame pointer. `None` if it is not in a prologue.
    fn prologue<M: Machine>(machine: &mut M, pc: u64) -> Option<u64>;

    /// Returns the number of bytes from the stack pointer to the return address if the instructions at `address` pop these
    /// bytes and return. `None` for other instructions.
    fn epilogue<M: Machine>(machine: &mut M, address: u64) -> Option<u64>;

    /// Returns the number of bytes from the stack pointer to the return address if the instructions at `pc` are the last ones of the
    /// trampoline of uretprobes, behind its system call.
    fn returns_behind<M: Machine>(machine: &mut M, pc: u64) -> Option<u64> {
        let _ = (machine, pc);
        None
    }

    /// Returns the call instruction that ends at `address`.
    fn call_before<M: Machine>(machine: &mut M, address: u64) -> CallInstruction;

    /// Returns `true` if a call of the address in a register ends at `address`.
    fn calls_register<M: Machine>(machine: &mut M, address: u64) -> bool;

    /// Returns the distance from the stack pointer to the struct whose address the call before a return address passed, if the
    /// code before the call shows that it passed one in its own frame.
    fn stack_argument<M: Machine>(machine: &mut M, address: u64) -> Option<u64>;

    /// Returns the state of the frame at `pc`, the next instruction of code that links its frames by the frame pointer, and stores
    /// their words within `prologue` bytes.
    fn linked_frame<M: Machine>(machine: &mut M, pc: u64, prologue: u64) -> LinkedFrame;

    /// Returns `true` if the code at `pc`, behind a call, takes its stack pointer from the frame pointer rather than from memory.
    fn returns_to_fp<M: Machine>(machine: &mut M, pc: u64) -> bool;

    /// Returns the number of bytes from the stack pointer to the return address if `pc`, the next instruction, is at the end of a
    /// function that .NET compiled, among or behind the instructions that restore registers. One that `saves_fp` restores the frame
    /// pointer last.
    fn bytes_to_return<M: Machine>(machine: &mut M, pc: u64, saves_fp: bool) -> Option<u64>;

    /// Returns the state of the frame at `pc`, the next instruction of code that V8 generated.
    fn half_frame<M: Machine>(machine: &mut M, pc: u64, registers: &Registers) -> HalfFrame;
}

/// The frame of a leaf.
///
/// A struct with a state, not an `enum` with values: the verifier of 6.1 rejects a read of a value that was not written, even if
/// the result is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfFrame {
    /// State of the frame.
    pub state: HalfState,
    /// For [`Returning`](HalfState::Returning), the return address; for [`Calling`](HalfState::Calling), the function that is
    /// called within a few instructions.
    pub address: u64,
    /// For [`Returning`](HalfState::Returning), the caller's stack pointer.
    pub sp: u64,
}

impl HalfFrame {
    /// Returns a frame without an address.
    #[inline(always)]
    pub(super) const fn of(state: HalfState) -> HalfFrame {
        HalfFrame { state, address: 0, sp: 0 }
    }
}

/// States of a leaf's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfState {
    /// The frame pointer leads to it.
    Whole,
    /// The return address is at the stack pointer; the frame follows within a few instructions.
    Entered,
    /// The return address is at the stack pointer if the called function is the one that builds frames.
    Calling,
    /// The caller's frame pointer is at the stack pointer, the return address behind it.
    Pushed,
    /// The frame pointer leads to it; all else is below the stack pointer already.
    Ending,
    /// The return address is at the stack pointer; the next instructions return.
    Left,
    /// The same, and the frame that was there is still in memory below the stack pointer.
    LeftBelow,
    /// The return address is in a register; the next instructions return.
    Returning,
}

/// States of a leaf's frame that the frame pointer links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkedFrame {
    /// No frame yet; the return address is at the stack pointer.
    Entered,
    /// The caller's frame pointer is at the stack pointer, the return address behind it.
    Saved,
    /// The frame pointer leads to it; its words are not stored yet.
    Linked,
    /// The frame pointer leads to it.
    Whole,
    /// No frame any more; the return address is at the stack pointer.
    Left,
}

/// A call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallInstruction {
    /// No call instruction.
    None,
    /// A call to an address in a register or in memory.
    Indirect,
    /// A call to this address.
    Direct(u64),
}
