//! Contexts of programs: the part of a sample that depends on the sort of event.

use core::ffi::c_void;

use aya_ebpf::EbpfContext;
use aya_ebpf::programs::{
    FEntryContext, FExitContext, PerfEventContext, ProbeContext, RawTracePointContext, TracePointContext,
};

use crate::arch;

/// The context of a program at an event.
pub(crate) trait Context {
    /// Returns the context for helpers.
    fn pointer(&self) -> *mut c_void;

    /// Returns `true` if the context has the registers of the user code at which the event happened. Otherwise the kernel's
    /// stack precedes the user's, whose registers are those that the kernel saved on entry.
    fn hit_user_code(&self) -> bool {
        false
    }

    /// Returns the number of kernel frames to drop on the leaf's side.
    fn skipped_frames(&self) -> u32 {
        0
    }

    /// Returns the kernel's stack pointer at an event that can hit any instruction of the kernel; 0 for others.
    fn kernel_stack_pointer(&self) -> u64 {
        0
    }

    /// Returns word `index` of the context's `pt_regs`. Called only if the context [has](Context::hit_user_code) them.
    fn word(&self, index: usize) -> u64 {
        let _ = index;
        0
    }
}

/// Returns word `index` of the registers at the start of a context.
///
/// The read is volatile, or the compiler would merge it with a read of saved registers, and the verifier rejects a pointer
/// to either.
#[inline(always)]
fn word(context: *mut c_void, index: usize) -> u64 {
    // SAFETY: the context starts with a complete `pt_regs`.
    unsafe { context.cast::<u64>().add(index).read_volatile() }
}

/// A clock or counter, which interrupts user code or the kernel.
impl Context for PerfEventContext {
    #[inline(always)]
    fn pointer(&self) -> *mut c_void {
        self.as_ptr()
    }

    #[inline(always)]
    fn hit_user_code(&self) -> bool {
        arch::is_user(|at| word(self.as_ptr(), at))
    }

    #[inline(always)]
    fn kernel_stack_pointer(&self) -> u64 {
        word(self.as_ptr(), arch::word::SP)
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        word(self.as_ptr(), index)
    }
}

/// A uprobe or uretprobe in user code, or a kprobe or kretprobe in the kernel.
impl Context for ProbeContext {
    #[inline(always)]
    fn pointer(&self) -> *mut c_void {
        self.as_ptr()
    }

    #[inline(always)]
    fn hit_user_code(&self) -> bool {
        arch::is_user(|at| word(self.as_ptr(), at))
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        word(self.as_ptr(), index)
    }
}

/// A tracepoint, in the kernel.
impl Context for RawTracePointContext {
    #[inline(always)]
    fn pointer(&self) -> *mut c_void {
        self.as_ptr()
    }

    /// The program, and the function of the kernel that runs it.
    #[inline(always)]
    fn skipped_frames(&self) -> u32 {
        2
    }
}

/// A tracepoint by name, in the kernel.
impl Context for TracePointContext {
    #[inline(always)]
    fn pointer(&self) -> *mut c_void {
        self.as_ptr()
    }
}

/// The entry of a function of the kernel.
impl Context for FEntryContext {
    #[inline(always)]
    fn pointer(&self) -> *mut c_void {
        self.as_ptr()
    }

    /// The program, and the code that calls it.
    #[inline(always)]
    fn skipped_frames(&self) -> u32 {
        2
    }
}

/// The exit of a function of the kernel.
impl Context for FExitContext {
    #[inline(always)]
    fn pointer(&self) -> *mut c_void {
        self.as_ptr()
    }

    /// The program, and the code that calls it.
    #[inline(always)]
    fn skipped_frames(&self) -> u32 {
        2
    }
}
