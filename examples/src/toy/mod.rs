//! A language of one's own: the functions of toy scripts, whose interpreter is `toy.c` beside this file.
//!
//! ```text
//! struct function { const char *name; uint32_t first_line, serial; … };
//! struct frame    { struct frame *caller; const struct function *function; uint32_t line; };
//! struct frame *toy_top;                                  the innermost frame
//! void toy_run(const struct function *);                  the interpreter loop: one call runs one frame
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{
    Attached, Attachment, FramePath, FrameWalker, Function, Language, Lines, Memory, Reason, Runtime, Target,
};

/// The toy language.
#[derive(Clone, Copy, Debug, Default)]
pub struct Toy;

impl Language for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    /// Recognizes the interpreter by its exported symbols, whatever the name of the file.
    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        let exports = elf.exports()?;
        let (run, top) = (exports.get("toy_run")?, exports.get("toy_top")?.address);
        let code = Range { start: run.address, end: run.address.checked_add(run.size)? };
        Some(Box::new(ToyRuntime { loops: [code], top }))
    }
}

struct ToyRuntime {
    loops: [Range<u64>; 1],
    /// Virtual address of `toy_top`.
    top: u64,
}

impl Runtime for ToyRuntime {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        let walker = FrameWalker::list(FramePath::from_address(target.address(self.top), &[]))
            .caller(0)
            .function(8)
            .position_number(16)
            .identity_number(12)
            .build()
            .map_err(|_| Reason::Unsupported)?;
        Ok(Attachment::new(walker, ToyNames(walker)))
    }
}

struct ToyNames(FrameWalker);

impl Attached for ToyNames {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        if self.0.check(address, |at| memory.u64(at))? != check {
            return Err(Reason::Replaced);
        }
        let name: [u8; 16] = memory.array(memory.u64(address)?)?;
        let end = name.iter().position(|&byte| byte == 0).ok_or(Reason::Implausible)?;
        let name = std::str::from_utf8(&name[..end]).map_err(|_| Reason::Implausible)?;
        let start_line = memory.u32(address.wrapping_add(8))?;
        // The position of a frame is its line.
        let mut lines = Lines::default();
        (start_line..start_line.saturating_add(8)).for_each(|line| lines.push(line, line));
        Ok(Function::new(name).with_file("script.toy").with_start_line(start_line).with_lines(lines))
    }
}
