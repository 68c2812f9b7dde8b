//! Labels of the sampled thread.

use ebpf_programs::abi::interpreter::walker;
use ebpf_programs::abi::labels::MAX_WORDS;
use ebpf_programs::walk::LABEL_STEPS;

use crate::drive::{self, Step};
use crate::scratch::{Scratch, walkers};

/// Copies the labels of the current thread into the record, after the kernel frames.
#[inline(always)]
pub(crate) fn read(scratch: &mut Scratch) {
    if walkers() >> walker::LABELS & 1 == 0 || scratch.walk.process.labels == 0 {
        return;
    }
    let process = scratch.walk.process;
    let machine = (&raw const *scratch).cast::<Scratch<0>>();
    // SAFETY: the reader writes its own fields, the machine reads others; both are plain memory of one map value that belongs to
    // this CPU.
    if !scratch.labels.begin(unsafe { &*machine }, &process) {
        return;
    }
    drive::drive::<Labels>(scratch);
    let (words, flags) = (scratch.labels.words, scratch.labels.flags);
    // Masked for the verifier.
    let words = if words > MAX_WORDS as u32 { 0 } else { words };
    let head = scratch.head();
    head.labels = words as u8;
    head.label_flags = flags as u8;
    scratch.user_at += words;
}

/// Labels of the thread.
struct Labels;

impl Step for Labels {
    const COUNT: u32 = LABEL_STEPS;

    /// Copies at most one.
    #[inline(always)]
    fn step(scratch: &mut Scratch, index: u32) -> bool {
        let machine = (&raw mut *scratch).cast::<Scratch<0>>();
        // SAFETY: as above; the machine writes the record and its own buffers.
        scratch.labels.step(unsafe { &mut *machine }, index)
    }

    #[cfg(feature = "kernel_5_10")]
    #[inline(always)]
    fn turn(slot: u32, index: u32) -> u32 {
        global::turn_labels(slot, index)
    }
}

#[cfg(feature = "kernel_5_10")]
mod global {
    use super::Labels;
    use crate::drive::global;

    global!(Labels, step_labels, turn_labels);
}
