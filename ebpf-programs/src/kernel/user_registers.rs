//! The user registers of the current thread.

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use ebpf_programs::abi::registers::Registers;

use crate::arch::{self, Saved};
use crate::context::Context;

/// Fills `registers` with the thread's user registers. Returns `false` for a thread without user code.
#[inline(always)]
pub(crate) fn fill<C: Context>(context: &C, registers: &mut Registers, saved: &mut Saved) -> bool {
    // Evaluated again: with an argument, the verifier would follow the whole walk for both of its values.
    if context.hit_user_code() {
        arch::registers(registers, |at| context.word(at));
        return true;
    }
    if !copy_saved(saved, context.kernel_stack_pointer()) || !arch::is_user(|at| saved[at]) {
        return false;
    }
    arch::registers(registers, |at| saved[at]);
    true
}

/// Copies the registers that the kernel saved on entry into `saved`, which is in a map value because the stack is short.
/// A copy takes as long as a walk of ten frames. Returns `false` where they are not saved yet.
#[inline(always)]
fn copy_saved(saved: &mut Saved, kernel_stack_pointer: u64) -> bool {
    let at = saved_registers();
    if arch::is_entering(kernel_stack_pointer, at) {
        return false;
    }
    // SAFETY: the copy has the size of its target and fails without a fault.
    unsafe {
        bpf_probe_read_kernel(saved.as_mut_ptr().cast(), size_of::<Saved>() as u32, at as *const _) == 0
    }
}

/// Returns the address of the registers that the kernel saved when the current thread entered it.
#[cfg(not(feature = "kernel_5_10"))]
#[inline(always)]
fn saved_registers() -> u64 {
    use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_task_pt_regs};
    // SAFETY: both helpers use the current task.
    unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()) as u64 }
}

/// Returns the address of the registers that the kernel saved when the current thread entered it: the end of its stack. An address
/// that is not readable if that is unknown.
#[cfg(feature = "kernel_5_10")]
#[inline(always)]
fn saved_registers() -> u64 {
    use crate::scratch::kernel_word;
    // SAFETY: the helper has no conditions; the constants are volatile, because the loader has replaced them.
    let (task, [at, size]) = unsafe {
        let task = aya_ebpf::helpers::generated::bpf_get_current_task();
        (task, (&raw const crate::KERNEL_STACK).read_volatile())
    };
    kernel_word(task, at).map_or(0, |stack| stack + size as u64 - size_of::<Saved>() as u64)
}
