//! Recognizes files that hold PHP.
//!
//! PHP exports its functions and variables to extensions, whatever the name of the file: `php8.2`,
//! `php-fpm8.2`, `libphp8.2.so` (Apache's module and the embedding library). Static programs have
//! no extensions to load; there it is found by its code.

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach;
use super::jit::LoopFrame;
use super::offsets::Offsets;
use super::stripped;
use super::version::Version;
use crate::accessor::{self, Origin};
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
    pub(super) globals: Globals,
    /// DWARF number of the register that holds the current instruction in the loop, if one does.
    pub(super) opline: Option<u8>,
    /// The frame of such a loop, in which code of the JIT runs.
    pub(super) frame: Option<LoopFrame>,
}

/// The place of the executor's globals.
#[derive(Clone, Copy, Debug)]
pub(super) enum Globals {
    /// A variable at this virtual address.
    OfProcess { address: u64 },
    /// In the memory of each thread, in builds with thread safety (ZTS): a thread-local word leads
    /// there, and the distance is in a variable at this virtual address.
    OfThread { memory: Origin, distance: u64 },
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

/// Returns the loop and the place of the globals, if they are exported.
fn exported(elf: &Elf) -> Option<(Range<u64>, Globals)> {
    let exports = elf.exports()?;
    let address = |name| exports.get(name).map(|it| it.address);
    let globals = match address("executor_globals") {
        Some(address) => Globals::OfProcess { address },
        None => Globals::OfThread {
            distance: address("executor_globals_offset")?,
            memory: accessor::returned(elf, address("tsrm_get_ls_cache")?, &|_| false)?,
        },
    };
    let execute = exports.get("execute_ex")?;
    Some((execute.address..execute.address.checked_add(execute.size)?, globals))
}

/// Returns the loop, the place of the globals and the version of a static program.
fn hidden(elf: &Elf) -> Option<(Range<u64>, Globals, Option<Version>)> {
    if !stripped::is_static(elf) {
        return None;
    }
    let version = Version::detect(elf)?;
    let found = stripped::find(elf, Offsets::of(version)?.current)?;
    Some((found.main, Globals::OfProcess { address: found.globals }, Some(version)))
}

fn facts(
    elf: &Elf,
    globals: Globals,
    version: Option<Version>,
    loops: &[Range<u64>],
) -> Option<RuntimeFacts> {
    let offsets = Offsets::of(version?)?;
    let opline = opline(elf, loops);
    let frame = loops.first().filter(|_| opline.is_some()).and_then(|main| LoopFrame::of(elf, main));
    Some(RuntimeFacts { offsets, globals, opline, frame })
}

/// Returns the register that holds the current instruction in a loop whose parts jump to one
/// another (`ZEND_VM_KIND_HYBRID`).
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
