//! Recognizes files that hold Perl, by symbols that it exports to extensions: `perl`, `libperl.so`.

use std::ops::Range;

use ebpf_profiler_core::elf::{Elf, Exports};
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach;
use super::operations::Tables;

/// A file that holds Perl.
#[derive(Debug)]
pub(super) struct File {
    loops: Vec<Range<u64>>,
    /// Facts needed to attach, or the reason why they are missing.
    facts: Result<RuntimeFacts, Reason>,
}

/// Facts about a runtime that are read once from its file.
#[derive(Clone, Debug)]
pub(super) struct RuntimeFacts {
    /// Version of Perl 5: 36.
    pub(super) version: u8,
    /// Virtual address of the number of the key of interpreters.
    pub(super) key: u64,
    /// The tables of operations.
    pub(super) operations: Tables,
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let exports = elf.exports()?;
    let key = exports.get("PL_thr_key")?;
    let range = |name| exports.get(name).map(|it| it.address..it.address.saturating_add(it.size));
    let loops = vec![range("Perl_runops_standard")?].into_iter().chain(range("Perl_runops_debug")).collect();
    Some(File { loops, facts: facts(elf, exports, key.address).ok_or(Reason::Unsupported) })
}

fn facts(elf: &Elf, exports: Exports<'_>, key: u64) -> Option<RuntimeFacts> {
    let byte = |name| {
        let mut byte = [0];
        elf.read(exports.get(name)?.address, &mut byte).ok()?;
        Some(byte[0])
    };
    let version = byte("PL_version").filter(|_| byte("PL_revision") == Some(5))?;
    let operations = Tables::find(exports)?;
    (32..=42).contains(&version).then_some(RuntimeFacts { version, key, operations })
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        attach::attach(self.facts.as_ref().map_err(|reason| *reason)?, target)
    }
}
