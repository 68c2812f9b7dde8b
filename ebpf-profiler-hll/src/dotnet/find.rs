//! Recognizes files that hold CoreCLR, by the tables and functions that it exports.

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach;

/// The table of the runtime's variables, for debuggers.
const VARIABLES: &str = "g_dacTable";

/// A function that starts the runtime; a version that exports it alone is unsupported.
const STARTS: &str = "coreclr_initialize";

/// A file that holds CoreCLR.
#[derive(Debug)]
pub(super) struct File {
    /// Virtual address of the table of variables; `None` if it is unsupported.
    variables: Option<u64>,
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let exports = elf.exports()?;
    let variables = exports.get(VARIABLES).map(|symbol| symbol.address);
    if variables.is_none() && exports.get(STARTS).is_none() {
        return None;
    }
    Some(File { variables: variables.filter(|_| elf.arch() == Arch::X86_64) })
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &[]
    }

    fn owns_anonymous_memory(&self) -> bool {
        self.variables.is_some()
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        attach::attach(self.variables.ok_or(Reason::Unsupported)?, target)
    }
}
