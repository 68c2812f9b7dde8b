//! Recognizes files that hold PHP.
//!
//! PHP exports its functions and variables to extensions, whatever the name of the file: `php8.2`, `php-fpm8.2`,
//! `libphp8.2.so` (Apache's module and the embedding library).

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach;
use super::offsets::Offsets;
use super::version::Version;
use crate::split;

/// Maximum number of bytes of the loop that are searched.
const MAX_LOOP: u64 = 1 << 20;

/// Minimum number of jumps to an instruction's code in a loop of that kind; there are some 1,200.
const MIN_JUMPS: usize = 100;

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
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let exports = elf.exports()?;
    let globals = exports.get("executor_globals")?;
    let execute = exports.get("execute_ex")?;
    let main = execute.address..execute.address.checked_add(execute.size)?;
    let loops = split::parts(elf, main);
    let facts = facts(elf, globals.address, &loops).ok_or(Reason::Unsupported);
    Some(File { loops, facts })
}

fn facts(elf: &Elf, globals: u64, loops: &[Range<u64>]) -> Option<RuntimeFacts> {
    let offsets = Offsets::of(Version::detect(elf)?)?;
    let opline = opline(elf, loops);
    Some(RuntimeFacts { offsets, current: globals.checked_add(offsets.current.into())?, opline })
}

/// Returns the register that holds the current instruction in a loop whose parts jump to one another (`ZEND_VM_KIND_HYBRID`)
/// by `jmp *(%r15)`.
fn opline(elf: &Elf, loops: &[Range<u64>]) -> Option<u8> {
    const R15: u8 = 15;
    const JUMP: &[u8] = b"\x41\xff\x27";
    let main = loops.first()?;
    let size = (main.end - main.start).min(MAX_LOOP);
    let mut code = vec![0; size as usize];
    elf.read(main.start, &mut code).ok()?;
    let jumps = code.windows(JUMP.len()).filter(|window| *window == JUMP).count();
    (elf.arch() == Arch::X86_64 && jumps >= MIN_JUMPS).then_some(R15)
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        attach::attach(&self.facts?, target)
    }
}
