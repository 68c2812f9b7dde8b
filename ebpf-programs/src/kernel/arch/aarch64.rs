//! arm64.
//!
//! Layout: [ptrace.h](https://github.com/torvalds/linux/blob/v6.12/arch/arm64/include/uapi/asm/ptrace.h), with which the kernel's own
//! registers begin.

use core::arch::asm;

use ebpf_programs::abi::registers::{Registers, aarch64};

pub(crate) use ebpf_programs::walk::arch::Aarch64 as Native;

/// `struct user_pt_regs`, as words of eight bytes: x0 to x30, sp, pc, pstate.
pub(crate) type Saved = [u64; 34];

/// Bytes that a call pushes: the return address is in a register.
pub(crate) const PUSHED_BY_CALL: u64 = 0;

/// Word numbers in [`Saved`].
pub(crate) mod word {
    /// The stack pointer.
    pub(crate) const SP: usize = 31;
    /// The first argument of a function.
    pub(crate) const FIRST: usize = 0;
    /// The result of a function.
    pub(crate) const RESULT: usize = 0;
    pub(super) const PC: usize = 32;
    pub(super) const PSTATE: usize = 33;
}

/// Returns `true` if saved registers are those of user code of 64 bits: level 0, with its own stack pointer. A CPU that has booted has
/// zeros there until it enters user code.
#[inline(always)]
pub(crate) fn is_user(saved: impl Fn(usize) -> u64) -> bool {
    const MODE: u64 = 0x1f;
    saved(word::PSTATE) & MODE == 0 && saved(word::SP) != 0
}

/// Returns `false`: interrupts are off while entry code saves registers, also those of counters.
#[inline(always)]
pub(crate) fn is_entering(_: u64, _: u64) -> bool {
    false
}

/// Takes the registers of user code.
#[inline(always)]
pub(crate) fn registers(registers: &mut Registers, saved: impl Fn(usize) -> u64) {
    registers.known = (1 << aarch64::COUNT) - 1;
    registers.pc = saved(word::PC);
    // DWARF numbers are those of the words.
    for (at, value) in registers.values.iter_mut().enumerate() {
        *value = saved(at);
    }
}

/// Writes a position behind which user space reads, after all that was written before.
///
/// # Safety
/// `position` is in a value of a map.
#[inline(always)]
pub(crate) unsafe fn publish(position: *mut u64, value: u64) {
    // An exchange orders all accesses; this target's compiler knows no other store that does.
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{value} = xchg_64({position} + 0, {value})", position = in(reg) position, value = inout(reg) value => _);
    }
}

/// Keeps reads that follow behind those that precede. `any` is a word of this CPU in a value of a map.
#[inline(always)]
pub(crate) fn order_reads(any: &mut u64) {
    let any: *mut u64 = any;
    // SAFETY: a word that is borrowed. An exchange orders all accesses.
    unsafe { asm!("{value} = xchg_64({any} + 0, {value})", any = in(reg) any, value = inout(reg) 0u64 => _) };
}
