//! Registers of a thread, by DWARF number.

/// Number of registers that are kept: DWARF numbers 0 to 31, of which x86_64 has 16.
pub const COUNT: usize = 32;

/// The registers at one frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The program counter.
    pub pc: u64,
    /// Bit set of the registers whose values are known at this frame, by DWARF number.
    pub known: u64,
    /// Register values, indexed by DWARF number. The value of an unknown register has no meaning.
    pub values: [u64; COUNT],
    /// The thread pointer: the base of fs on x86_64, tpidr_el0 on arm64; 0 if unknown.
    pub thread: u64,
}

/// DWARF register numbers of x86_64.
pub mod x86_64 {
    /// The frame pointer, rbp.
    pub const FP: usize = 6;
    /// The stack pointer, rsp.
    pub const SP: usize = 7;
    /// Number of general-purpose registers, DWARF numbers 0 to 15; `Registers::values` has [`COUNT`](super::COUNT) entries.
    pub const COUNT: usize = 16;
}

/// DWARF register numbers of arm64.
pub mod aarch64 {
    /// The frame pointer, x29.
    pub const FP: usize = 29;
    /// The link register, x30.
    pub const LR: usize = 30;
    /// DWARF number of the stack pointer, sp.
    pub const SP: usize = 31;
    /// Number of registers, DWARF numbers 0 to 31.
    pub const COUNT: usize = 32;
}

const _: () = assert!(size_of::<Registers>() == 280);
