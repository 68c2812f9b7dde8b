//! The registers with which the thread last ran user code.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_probe_read_kernel, bpf_task_pt_regs};
use aya_ebpf::programs::PerfEventContext;
use ebpf_programs::abi::registers::{Registers, x86_64};

/// `struct pt_regs` of x86_64, as words.
pub(crate) type Saved = [u64; 21];

/// Word numbers in [`Saved`].
mod saved {
    pub(super) const RIP: usize = 16;
    pub(super) const CS: usize = 17;
    /// For each DWARF register number, the word that holds it.
    pub(super) const BY_DWARF: [usize; 16] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0];
}

/// Whether the tick hit user code.
#[inline(always)]
pub(crate) fn hit_user_code(context: &PerfEventContext) -> bool {
    word(context, saved::CS) & 3 == 3
}

/// Fills `registers` from the interrupted user code, or, below kernel code, from where the kernel saved them
/// when the thread entered it. False for a thread that never ran user code.
///
/// `saved` is memory to work with: the stack is short.
#[inline(always)]
pub(crate) fn fill(
    context: &PerfEventContext,
    user: bool,
    registers: &mut Registers,
    saved: &mut Saved,
) -> bool {
    registers.known = (1 << x86_64::COUNT) - 1;
    if user {
        registers.pc = word(context, saved::RIP);
        take(registers, |index| word(context, index));
        return true;
    }
    // SAFETY: both helpers work on the current task; the copy has the size of its target and fails without a
    // fault.
    let error = unsafe {
        let at = bpf_task_pt_regs(bpf_get_current_task_btf());
        bpf_probe_read_kernel(saved.as_mut_ptr().cast(), size_of::<Saved>() as u32, at as *const _)
    };
    if error != 0 || saved[saved::CS] & 3 != 3 {
        return false;
    }
    registers.pc = saved[saved::RIP];
    take(registers, |index| saved[index]);
    true
}

#[inline(always)]
fn take(registers: &mut Registers, word: impl Fn(usize) -> u64) {
    // Spelled out by the compiler: the context may only be read at constant offsets.
    macro_rules! each {
        ($($number:literal)*) => { $(registers.values[$number] = word(saved::BY_DWARF[$number]);)* };
    }
    each!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

/// A word of the context's registers.
#[inline(always)]
fn word(context: &PerfEventContext, index: usize) -> u64 {
    // SAFETY: the context begins with a whole `pt_regs`.
    unsafe { *context.as_ptr().cast::<u64>().add(index) }
}
