//! Recognizes files that hold PHP.
//!
//! PHP exports its functions and variables to extensions, whatever the name of the file: `php8.2`, `php-fpm8.2`,
//! `libphp8.2.so` (Apache's module and the embedding library). Static programs have no extensions to load; there it is found by
//! its code.

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach;
use super::jit::LoopFrame;
use super::offsets::Offsets;
use super::stripped;
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
    /// DWARF number of the register that holds the current instruction in the loop, if one does.
    pub(super) opline: Option<u8>,
    /// The frame of such a loop, in which code of the JIT runs.
    pub(super) frame: Option<LoopFrame>,
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let (main, globals, version) = match exported(elf) {
        Some((main, globals)) => (main, globals, Version::detect(elf)),
        None => hidden(elf)?,
    };
    let loops = split::parts(elf, main);
    let facts = facts(elf, globals, version, &loops).ok_or(Reason::Unsupported);
    Some(File { loops, facts })
}

/// Returns the loop and the address of the globals, if they are exported.
fn exported(elf: &Elf) -> Option<(Range<u64>, u64)> {
    let exports = elf.exports()?;
    let globals = exports.get("executor_globals")?;
    let execute = exports.get("execute_ex")?;
    Some((execute.address..execute.address.checked_add(execute.size)?, globals.address))
}

/// Returns the loop, the address of the globals and the version of a static program.
fn hidden(elf: &Elf) -> Option<(Range<u64>, u64, Option<Version>)> {
    if !stripped::is_static(elf) {
        return None;
    }
    let version = Version::detect(elf)?;
    let found = stripped::find(elf, Offsets::of(version)?.current)?;
    Some((found.main, found.globals, Some(version)))
}

fn facts(elf: &Elf, globals: u64, version: Option<Version>, loops: &[Range<u64>]) -> Option<RuntimeFacts> {
    let offsets = Offsets::of(version?)?;
    let opline = opline(elf, loops);
    let frame = loops.first().filter(|_| opline.is_some()).and_then(|main| LoopFrame::of(elf, main));
    Some(RuntimeFacts { offsets, current: globals.checked_add(offsets.current.into())?, opline, frame })
}

/// Returns the register that holds the current instruction in a loop whose parts jump to one another
/// (`ZEND_VM_KIND_HYBRID`).
fn opline(elf: &Elf, loops: &[Range<u64>]) -> Option<u8> {
    const R15: u8 = 15;
    let code = stripped::code(elf, loops.first()?)?;
    let is_hybrid = stripped::dispatches(&code) >= stripped::MIN_DISPATCHES;
    (elf.arch() == Arch::X86_64 && is_hybrid).then_some(R15)
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        attach::attach(&self.facts?, target)
    }
}
