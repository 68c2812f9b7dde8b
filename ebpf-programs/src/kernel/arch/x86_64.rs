//! x86_64.
//!
//! Layout: [ptrace.h](https://github.com/torvalds/linux/blob/v6.12/arch/x86/include/asm/ptrace.h).
//! Registers that are not saved yet: [perf_regs.c](https://github.com/torvalds/linux/blob/v6.12/arch/x86/kernel/perf_regs.c).

use ebpf_programs::abi::registers::{Registers, x86_64};

pub(crate) use ebpf_programs::abi::registers::x86_64::is_entering;
pub(crate) use ebpf_programs::walk::arch::X86_64 as Native;

/// `struct pt_regs`, as words of eight bytes.
pub(crate) type Saved = [u64; 21];

/// Bytes that a call pushes: the return address.
pub(crate) const PUSHED_BY_CALL: u64 = 8;

/// Word numbers in [`Saved`].
pub(crate) mod word {
    /// The stack pointer.
    pub(crate) const SP: usize = 19;
    /// The first argument of a function.
    pub(crate) const FIRST: usize = 14;
    /// The result of a function.
    pub(crate) const RESULT: usize = 10;
    pub(super) const CS: usize = 17;
    pub(super) const RIP: usize = 16;
    /// Word number for each DWARF register number.
    pub(super) const BY_DWARF: [usize; 16] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0];
}

/// Returns `true` if saved registers are those of user code.
#[inline(always)]
pub(crate) fn is_user(saved: impl Fn(usize) -> u64) -> bool {
    saved(word::CS) & 3 == 3
}

/// Takes the registers of user code.
#[inline(always)]
pub(crate) fn registers(registers: &mut Registers, saved: impl Fn(usize) -> u64) {
    registers.known = (1 << x86_64::COUNT) - 1;
    registers.pc = saved(word::RIP);
    for (value, at) in registers.values.iter_mut().zip(word::BY_DWARF) {
        *value = saved(at);
    }
}

/// Writes a position behind which user space reads. This architecture makes stores visible in program order.
///
/// # Safety
/// `position` is in a value of a map.
#[inline(always)]
pub(crate) unsafe fn publish(position: *mut u64, value: u64) {
    // SAFETY: the caller's promise.
    unsafe { position.write_volatile(value) };
}

/// Keeps reads that follow behind those that precede, as this architecture does anyway.
#[inline(always)]
pub(crate) fn order_reads(_: &mut u64) {}
