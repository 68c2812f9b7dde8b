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
    pub(super) state: State,
    /// The tables of operations.
    pub(super) operations: Tables,
}

/// The place of the statement and of the innermost stack, as virtual addresses.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// In the interpreter of each thread, which has this key: the number of it is at the address.
    OfThread { key: u64 },
    /// In variables, in builds without threads.
    OfProcess { statement: u64, stack: u64 },
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let exports = elf.exports()?;
    let address = |name| exports.get(name).map(|it| it.address);
    let of_process =
        || Some(State::OfProcess { statement: address("PL_curcop")?, stack: address("PL_curstackinfo")? });
    let state = address("PL_thr_key").map(|key| State::OfThread { key }).or_else(of_process)?;
    let range = |name| exports.get(name).map(|it| it.address..it.address.saturating_add(it.size));
    let loops = vec![range("Perl_runops_standard")?].into_iter().chain(range("Perl_runops_debug")).collect();
    Some(File { loops, facts: facts(elf, exports, state).ok_or(Reason::Unsupported) })
}

fn facts(elf: &Elf, exports: Exports<'_>, state: State) -> Option<RuntimeFacts> {
    let byte = |name| {
        let mut byte = [0];
        elf.read(exports.get(name)?.address, &mut byte).ok()?;
        Some(byte[0])
    };
    let version = byte("PL_version").filter(|_| byte("PL_revision") == Some(5))?;
    let operations = Tables::find(exports)?;
    (32..=42).contains(&version).then_some(RuntimeFacts { version, state, operations })
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        attach::attach(self.facts.as_ref().map_err(|reason| *reason)?, target)
    }
}
