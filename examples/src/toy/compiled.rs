//! A language that compiles its functions: its compiler is in `compiled.c` beside this file.
//!
//! ```text
//! struct function { const char *name; uint32_t first_line, serial, positions; uint8_t *code; …; struct position table[4]; };
//! struct position { uint32_t distance, line; };           from this distance of the code on
//! uint8_t *toy_code;                                      64 KiB of compiled code
//!
//! push rbp; mov rbp, rsp; push rdi; …; leave; ret         the code of a function, whose address is in rdi
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{
    Attached, Attachment, CodeRanges, FrameWalker, Function, Language, Lines, Memory, Reason, Runtime, Target,
};

use super::name_and_line;

/// The toy language with a compiler.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToyCompiled;

/// Size of the memory for compiled code.
const CODE_SIZE: u64 = 1 << 16;

/// DWARF number of `rdi`.
const RDI: u8 = 5;

impl Language for ToyCompiled {
    fn name(&self) -> &'static str {
        "toy-compiled"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        let code = elf.exports()?.get("toy_code")?.address;
        Some(Box::new(CompiledRuntime { code }))
    }
}

struct CompiledRuntime {
    /// Virtual address of `toy_code`.
    code: u64,
}

impl Runtime for CompiledRuntime {
    fn loops(&self) -> &[Range<u64>] {
        &[]
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        let start = target.word(self.code)?;
        if start == 0 {
            return Err(Reason::NotReady);
        }
        let code = Range { start, end: start.checked_add(CODE_SIZE).ok_or(Reason::Implausible)? };
        let walker = FrameWalker::compiled()
            .function_in_frame(-8)
            .prologue(5)
            .function_at_entry(RDI)
            .position_code(24)
            .identity_number(12)
            .build()
            .map_err(|_| Reason::Unsupported)?;
        Ok(Attachment::new(walker, CompiledNames(walker)).with_code(CodeRanges::new([code])))
    }
}

struct CompiledNames(FrameWalker);

impl Attached for CompiledNames {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let (name, start_line) = name_and_line(address, memory)?;
        let mut lines = Lines::default();
        lines.push(0, start_line);
        let positions: [u8; 32] = memory.array(address.wrapping_add(40))?;
        let count = memory.u32(address.wrapping_add(16))? as usize;
        for position in positions.as_chunks::<8>().0.iter().take(count) {
            let position = u64::from_le_bytes(*position);
            lines.push(position as u32, (position >> 32) as u32);
        }
        // Read after everything else: the function may have been replaced in between.
        if self.0.check(address, |at| memory.u64(at))? != check {
            return Err(Reason::Replaced);
        }
        Ok(Function::new(name).with_file("script.toy").with_start_line(start_line).with_lines(lines))
    }
}
