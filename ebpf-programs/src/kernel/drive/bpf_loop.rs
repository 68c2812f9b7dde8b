//! The loop of the kernel.

use aya_ebpf::helpers::generated::bpf_loop;
use core::arch::asm;
use core::ffi::{c_long, c_void};

use super::Step;
use crate::scratch::Scratch;

/// Takes steps to the end.
#[inline(always)]
pub(crate) fn drive<S: Step>(scratch: &mut Scratch) {
    let mut state = scratch as *mut Scratch;
    repeat(S::COUNT, &mut state, step::<S>);
}

/// Runs one iteration. Returns 0 to continue.
extern "C" fn step<S: Step>(index: u32, state: *mut *mut Scratch) -> c_long {
    // SAFETY: `state` points to the pointer on the stack of `drive`.
    let scratch = unsafe { &mut **state };
    (!S::step(scratch, index)).into()
}

/// Calls `step` up to `count` times, as long as it returns 0.
#[inline(always)]
pub(crate) fn repeat<T>(count: u32, state: &mut T, step: extern "C" fn(u32, *mut T) -> c_long) {
    // SAFETY: the callback has the signature that the helper requires, and gets the pointer that it expects.
    unsafe { bpf_loop(count, taken(step as *mut c_void), (&raw mut *state).cast(), 0) };
}

/// Returns the address of a function, which is loaded on the way to this call alone: the kernel rejects a program that loads the
/// address of an unused function, as the compiler otherwise does to select one of several.
#[inline(always)]
fn taken(mut function: *mut c_void) -> *mut c_void {
    // SAFETY: the text has no instruction.
    unsafe { asm!("/* {0} */", inout(reg) function, options(nomem, nostack)) };
    function
}
