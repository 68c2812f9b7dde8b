//! Languages of one's own: the functions of toy scripts, in three forms.
//!
//! | form | language | runtime |
//! | --- | --- | --- |
//! | an interpreter with a list of frames | [`Toy`], in this file | `toy.c` |
//! | an interpreter with an array of frames | [`ToyArray`] | `array.c` |
//! | a compiler | [`ToyCompiled`] | `compiled.c` |
//!
//! The first one, `toy.c`:
//!
//! ```text
//! struct function { const char *name; uint32_t first_line, serial; … };
//! struct frame    { struct frame *caller; const struct function *function; uint32_t line; };
//! struct frame *toy_top;                                  the innermost frame
//! void toy_run(const struct function *);                  the interpreter loop: one call runs one frame
//! ```

mod array;

mod compiled;

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{
    Attached, Attachment, FramePath, FrameWalker, Function, Language, Lines, Memory, Reason, Runtime, Target,
};

pub use array::ToyArray;
pub use compiled::ToyCompiled;

/// Returns the toy languages.
pub fn all() -> [Box<dyn Language>; 3] {
    [Box::new(Toy), Box::new(ToyArray), Box::new(ToyCompiled)]
}

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
        let (name, start_line) = name_and_line(address, memory)?;
        // Read after everything else: the function may have been replaced in between.
        if self.0.check(address, |at| memory.u64(at))? != check {
            return Err(Reason::Replaced);
        }
        // The position of a frame is its line.
        let lines = Lines::of_positions();
        Ok(Function::new(name).with_file("script.toy").with_start_line(start_line).with_lines(lines))
    }
}

/// Reads the name of a function, and its first line.
fn name_and_line(address: u64, memory: &dyn Memory) -> Result<(String, u32), Reason> {
    let name: [u8; 16] = memory.array(memory.u64(address)?)?;
    let end = name.iter().position(|&byte| byte == 0).ok_or(Reason::Implausible)?;
    let name = std::str::from_utf8(&name[..end]).map_err(|_| Reason::Implausible)?;
    Ok((name.to_owned(), memory.u32(address.wrapping_add(8))?))
}
