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
    /// Bytes of the kernel's `struct pt_regs`.
    pub const SAVED: u64 = 21 * 8;
    /// Offset of r11 in it: entry code pushes the registers from there to its end one by one, and all others behind it.
    const R11: u64 = 6 * 8;

    /// Returns `true` if a kernel stack pointer is where entry code still pushes the user's registers, which are saved at an
    /// address. A non-maskable interrupt can hit that code; what it finds there is partly of an earlier entry.
    pub const fn is_entering(stack_pointer: u64, saved: u64) -> bool {
        // As the kernel's perf_get_regs_user has it.
        stack_pointer > saved + R11 && stack_pointer <= saved + SAVED
    }

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

#[test]
fn entry_code_has_not_saved_all_registers() {
    let saved = 0xffff_c900_0000_3f58;
    let at = |words: u64| x86_64::is_entering(saved + words * 8, saved);
    // At the first push, behind the last of the frame of the interrupt, and before r11.
    assert_eq!([21, 20, 15, 7, 6, 0].map(at), [true, true, true, true, false, false]);
    assert!(!x86_64::is_entering(saved - 512, saved) && !x86_64::is_entering(saved + 4096, saved));
}
