//! Recognizes files that hold PHP.
//!
//! PHP exports its functions and variables to extensions, whatever the name of the file: `php8.2`, `php-fpm8.2`,
//! `libphp8.2.so` (Apache's module and the embedding library).

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach;
use super::offsets::Offsets;
use super::version::Version;
use crate::split;

/// A file that holds PHP.
#[derive(Debug)]
pub(super) struct File {
    pub(super) loops: Vec<Range<u64>>,
    /// Facts needed to attach, or the reason why they are missing.
    pub(super) facts: Result<RuntimeFacts, Reason>,
}

/// Facts about a runtime that are read once from its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuntimeFacts {
    pub(super) offsets: Offsets,
    /// Virtual address of the pointer to the innermost frame.
    pub(super) current: u64,
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let exports = elf.exports()?;
    let globals = exports.get("executor_globals")?;
    let execute = exports.get("execute_ex")?;
    let main = execute.address..execute.address.checked_add(execute.size)?;
    let loops = split::parts(elf, main);
    Some(File { loops, facts: facts(elf, globals.address).ok_or(Reason::Unsupported) })
}

fn facts(elf: &Elf, globals: u64) -> Option<RuntimeFacts> {
    let offsets = Offsets::of(Version::detect(elf)?)?;
    Some(RuntimeFacts { offsets, current: globals.checked_add(offsets.current.into())? })
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        attach::attach(&self.facts?, target)
    }
}
