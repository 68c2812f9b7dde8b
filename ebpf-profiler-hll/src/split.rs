//! The parts of a function: compilers move what is seldom run away from the rest.
//!
//! ```text
//!   _PyEval_EvalFrameDefault        …   je  ─────┐
//!                                                │  its unwind rules begin with a frame that is set up already
//!   _PyEval_EvalFrameDefault.cold   …   ◄────────┘
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_programs::abi::interpreter::LOOPS;

use crate::code;
use crate::fde::Fdes;

/// The main part of a function, and those that it jumps to.
pub(crate) fn parts(elf: &Elf, main: Range<u64>) -> Vec<Range<u64>> {
    let fdes = Fdes::of(elf);
    let main = match fdes.as_ref().and_then(|fdes| fdes.at(main.start)) {
        // A symbol may have no size.
        Some(fde) if main.is_empty() => fde.range,
        _ => main,
    };
    let mut parts = vec![main.clone()];
    let Some(fdes) = fdes else { return parts };
    for target in code::jumps(elf, &main) {
        if parts.len() == LOOPS || parts.iter().any(|part| part.contains(&target)) {
            continue;
        }
        if let Some(fde) = fdes.at(target).filter(|fde| fde.goes_on) {
            parts.push(fde.range);
        }
    }
    parts
}
