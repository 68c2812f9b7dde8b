//! The seam to whoever builds unwind tables.

use crate::elf::{Elf, ElfError};

/// Builds the unwind table of an ELF file: the seam that `ebpf-profiler-unwind` plugs into.
///
/// A closure works too.
pub trait UnwindCompiler: Send + Sync {
    /// The table of `elf`, laid out as [`ebpf_programs::abi::table`] says.
    ///
    /// A file without any unwind data gives a table without rows.
    ///
    /// # Errors
    ///
    /// When the file can't be read or none of its unwind data makes sense.
    fn compile(&self, elf: &Elf) -> Result<Compiled, ElfError>;
}

impl<F> UnwindCompiler for F
where
    F: Fn(&Elf) -> Result<Compiled, ElfError> + Send + Sync,
{
    fn compile(&self, elf: &Elf) -> Result<Compiled, ElfError> {
        self(elf)
    }
}

/// A finished table, ready to be copied into the kernel side's arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The table, as [`ebpf_programs::abi::table`] lays it out; empty where there is no unwind data.
    pub image: Vec<u8>,
    /// Rows whose unwind data a rule can't hold; they are in the table as such.
    pub unsupported: u32,
    /// Pieces of unwind data (entries of a section) that made no sense and were passed over.
    pub malformed: u32,
}
