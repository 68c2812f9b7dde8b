//! What differs between instruction sets, and nothing else: every line that names a register lives here.

mod aarch64;

mod x86_64;

use crate::machine::Machine;

pub use aarch64::Aarch64;
pub use x86_64::X86_64;

/// An instruction set.
pub trait Arch {
    /// The DWARF number of the stack pointer.
    const SP: usize;
    /// The DWARF number of the frame pointer.
    const FP: usize;
    /// Where the interrupted program counter lies in the context of a signal frame.
    const SIGNAL_PC: u64;
    /// Where the interrupted stack pointer lies in it.
    const SIGNAL_SP: u64;
    /// Where the interrupted frame pointer lies in it.
    const SIGNAL_FP: u64;

    /// A code address without the signature that the CPU may have put into its upper bits.
    fn strip(address: u64) -> u64;

    /// How many bytes lie on the stack above the stack pointer before the return address, where the function that is about
    /// to run the instruction at `pc` has not set up its frame: none, or the frame pointer.
    fn prologue<M: Machine>(machine: &mut M, pc: u64) -> Option<u64>;

    /// How many bytes lie on the stack above the stack pointer before the return address, where the instructions at
    /// `address` give back just these and return.
    fn epilogue<M: Machine>(machine: &mut M, address: u64) -> Option<u64>;

    /// The call that ends before `address`, if one does.
    fn call_before<M: Machine>(machine: &mut M, address: u64) -> CallInstruction;
}

/// A call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallInstruction {
    /// There is none.
    None,
    /// To wherever a register or a word of memory says.
    Indirect,
    /// To this address.
    Direct(u64),
}
