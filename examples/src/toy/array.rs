//! A language whose frames are in an array: its interpreter is `array.c` beside this file.
//!
//! ```text
//! struct frame   { const struct function *function; uint32_t line; };
//! struct machine { struct frame *frames, *top; … } toy_machine;     `top` is the first free element
//! void toy_array_run(const struct function *);                      the interpreter loop: one call runs one frame
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Attachment, FramePath, FrameWalker, Language, Reason, Runtime, Target};

use super::ToyNames;

/// The toy language with an array of frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToyArray;

impl Language for ToyArray {
    fn name(&self) -> &'static str {
        "toy-array"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        let exports = elf.exports()?;
        let (run, machine) = (exports.get("toy_array_run")?, exports.get("toy_machine")?.address);
        let code = Range { start: run.address, end: run.address.checked_add(run.size)? };
        Some(Box::new(ArrayRuntime { loops: [code], machine }))
    }
}

struct ArrayRuntime {
    loops: [Range<u64>; 1],
    /// Virtual address of `toy_machine`.
    machine: u64,
}

impl Runtime for ArrayRuntime {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        let top = target.address(self.machine).wrapping_add(8);
        let walker = FrameWalker::array(FramePath::from_address(top, &[]), 16)
            .path_to_free()
            .outermost(-8)
            .function(0)
            .position_number(8)
            .identity_number(12)
            .build()
            .map_err(|_| Reason::Unsupported)?;
        Ok(Attachment::new(walker, ToyNames(walker)))
    }
}
