//! Loops. Kernels from 5.17 on have one for programs, `bpf_loop`, and verify its callback once. In older ones a global function
//! is what is verified once: by itself, for any arguments. So the object for these kernels calls global functions in bounded loops.
//!
//! ```text
//!   sampler         bpf_loop(COUNT, step)
//!   sampler_5_10    up to COUNT / TURN times: turn ──► up to TURN times: step
//! ```

#[cfg(not(feature = "kernel_5_10"))]
mod bpf_loop;

#[cfg(feature = "kernel_5_10")]
mod global;

#[cfg(not(feature = "kernel_5_10"))]
pub(crate) use bpf_loop::{drive, repeat};
#[cfg(feature = "kernel_5_10")]
pub(crate) use global::{TURN, drive, global, repeat, used};

use crate::scratch::Scratch;

/// A step over working memory.
pub(crate) trait Step {
    /// Maximum number of steps.
    const COUNT: u32;

    /// Takes step `index`. Returns `false` at the end.
    fn step(scratch: &mut Scratch, index: u32) -> bool;

    /// Takes steps from `index` on with the working memory of a slot. Returns 0 to continue after them.
    #[cfg(feature = "kernel_5_10")]
    fn turn(slot: u32, index: u32) -> u32;
}
