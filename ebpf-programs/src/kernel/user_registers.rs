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

/// Fills `registers` from where the kernel saves them when a thread enters it, by a call or by the tick itself.
/// False for a thread that never ran user code.
///
/// `saved` is memory to work with: the stack is short. The context has the same registers for a tick that hit user
/// code, but a compiler that sees two ways to one value joins them, and the verifier refuses what comes out.
#[inline(always)]
pub(crate) fn fill(registers: &mut Registers, saved: &mut Saved) -> bool {
    // SAFETY: both helpers work on the current task; the copy has the size of its target and fails without a
    // fault.
    let error = unsafe {
        let at = bpf_task_pt_regs(bpf_get_current_task_btf());
        bpf_probe_read_kernel(saved.as_mut_ptr().cast(), size_of::<Saved>() as u32, at as *const _)
    };
    if error != 0 || saved[saved::CS] & 3 != 3 {
        return false;
    }
    registers.known = (1 << x86_64::COUNT) - 1;
    registers.pc = saved[saved::RIP];
    for (value, at) in registers.values.iter_mut().zip(saved::BY_DWARF) {
        *value = saved[at];
    }
    true
}

/// A word of the context's registers.
#[inline(always)]
fn word(context: &PerfEventContext, index: usize) -> u64 {
    // SAFETY: the context begins with a whole `pt_regs`.
    unsafe { *context.as_ptr().cast::<u64>().add(index) }
}
