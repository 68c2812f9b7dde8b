//! The registers of a thread, by their DWARF numbers.

/// How many registers are kept: DWARF numbers 0 to 31 (16 of them exist on x86_64).
pub const COUNT: usize = 32;

/// The registers at one frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The program counter.
    pub pc: u64,
    /// Bit `n` is set where register `n` is known at this frame.
    pub known: u64,
    /// The values, indexed by DWARF number.
    pub values: [u64; COUNT],
    /// Where the thread's own variables lie: the base of fs on x86_64, tpidr_el0 on arm64; 0 where it isn't known.
    pub thread: u64,
}

/// DWARF register numbers of x86_64.
pub mod x86_64 {
    /// The frame pointer, rbp.
    pub const FP: usize = 6;
    /// The stack pointer, rsp.
    pub const SP: usize = 7;
    /// How many there are.
    pub const COUNT: usize = 16;
}

/// DWARF register numbers of arm64.
pub mod aarch64 {
    /// The frame pointer, x29.
    pub const FP: usize = 29;
    /// The link register, x30.
    pub const LR: usize = 30;
    /// The stack pointer.
    pub const SP: usize = 31;
    /// How many there are.
    pub const COUNT: usize = 32;
}

const _: () = assert!(size_of::<Registers>() == 280);
