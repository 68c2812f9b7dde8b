//! Bounded loops over global functions.
//!
//! A turn is a function of its own: the verifier keeps each way out of a loop for later, and not more than 8,192 at a time.

use core::arch::asm;
use core::ffi::c_long;

use super::Step;
use crate::scratch::Scratch;

/// Maximum number of steps of a turn.
pub(crate) const TURN: u32 = 64;

/// Takes steps to the end.
#[inline(always)]
pub(crate) fn drive<S: Step>(scratch: &mut Scratch) {
    let slot = scratch.slot;
    for turn in 0..S::COUNT.div_ceil(TURN) {
        if S::turn(slot, turn * TURN) != 0 {
            return;
        }
    }
}

/// Defines the global functions of a [`Step`].
macro_rules! global {
    ($step:ty, $one:ident, $turn:ident) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $one(slot: u32, index: u32) -> u32 {
            let Some(scratch) = crate::maps::SCRATCH.get_ptr_mut(slot) else { return 1 };
            // SAFETY: the value belongs to this slot, which is claimed.
            let scratch = unsafe { &mut *scratch };
            (!<$step as crate::drive::Step>::step(scratch, crate::drive::used(index))).into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        pub(super) extern "C" fn $turn(slot: u32, index: u32) -> u32 {
            for step in 0..crate::drive::TURN.min(<$step as crate::drive::Step>::COUNT) {
                if $one(slot, crate::drive::used(index) + step) != 0 {
                    return 1;
                }
            }
            0
        }
    };
}

pub(crate) use global;

/// Returns the value of an argument. The compiler sets none that its function doesn't use, and the verifier rejects a call then.
#[inline(always)]
pub(crate) fn used(mut value: u32) -> u32 {
    // SAFETY: the text has no instruction.
    unsafe { asm!("/* {0} */", inout(wreg) value, options(nomem, nostack)) };
    value
}

/// Calls `step` up to `count` times, as long as it returns 0.
#[inline(always)]
pub(crate) fn repeat<T>(count: u32, state: &mut T, step: extern "C" fn(u32, *mut T) -> c_long) {
    for index in 0..count {
        if step(index, state) != 0 {
            return;
        }
    }
}
