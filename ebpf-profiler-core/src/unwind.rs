//! The seam for compilers of unwind tables.

use std::ops::Range;

use crate::elf::{Elf, ElfError};

/// A compiler from an ELF file to its unwind table. `ebpf-profiler-unwind` implements it.
///
/// Closures implement this trait.
pub trait UnwindCompiler: Send + Sync {
    /// Compiles the unwind table of `elf` in the layout of [`ebpf_programs::abi::table`].
    ///
    /// A file without unwind data gives an empty image.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or its unwind data is invalid as a whole.
    fn compile(&self, elf: &Elf) -> Result<Compiled, ElfError>;

    /// Does the same, with rows for functions without unwind data, sorted by address: derived from
    /// their instructions. Functions that the file's unwind data describes, and those that
    /// overlap others, are ignored.
    ///
    /// The default ignores all of them.
    ///
    /// # Errors
    ///
    /// As [`compile`](UnwindCompiler::compile).
    fn compile_with(&self, elf: &Elf, functions: &[BareFunction]) -> Result<Compiled, ElfError> {
        let _ = functions;
        self.compile(elf)
    }

    /// Does the same, with rules for all other code without unwind data too, as far as they can be
    /// derived from its instructions. May take seconds: a live profiler calls it in a thread that
    /// nobody waits for, for files in which it had to guess. Reads the file every few tens of
    /// milliseconds, and ends with the error of a read.
    ///
    /// The default returns `None`: no such rules.
    fn compile_derived(&self, elf: &Elf, functions: &[BareFunction]) -> Option<Result<Compiled, ElfError>> {
        let _ = (elf, functions);
        None
    }
}

impl<F> UnwindCompiler for F
where
    F: Fn(&Elf) -> Result<Compiled, ElfError> + Send + Sync,
{
    fn compile(&self, elf: &Elf) -> Result<Compiled, ElfError> {
        self(elf)
    }
}

/// A function without unwind data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BareFunction {
    /// Its virtual addresses in the file.
    pub range: Range<u64>,
    /// Its frame when it is entered.
    pub entry: Entry,
}

/// The frame of a function when it is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// Nothing is saved yet: the code was just called, so the return address is at the stack
    /// pointer, and the frame pointer is the caller's.
    Called,
    /// A whole frame, to which the frame pointer leads: it was returned to at its first
    /// instruction.
    Framed,
}

/// A compiled unwind table, ready to be copied into the kernel's arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compiled {
    /// The table in the layout of [`ebpf_programs::abi::table`]; empty if the file has no unwind
    /// data.
    pub image: Vec<u8>,
    /// Number of rows whose unwind data no rule can express; the table marks them as unsupported.
    pub unsupported: u32,
    /// Number of invalid entries of unwind data, which were skipped.
    pub malformed: u32,
    /// Addresses at which rows have rules that were derived from instructions, in ascending order.
    pub derived: Vec<Range<u64>>,
}

impl Compiled {
    /// Creates a table in the layout of [`ebpf_programs::abi::table`]; the counters are zero, and
    /// can be set afterwards.
    pub fn new(image: Vec<u8>) -> Compiled {
        Compiled { image, ..Compiled::default() }
    }
}
