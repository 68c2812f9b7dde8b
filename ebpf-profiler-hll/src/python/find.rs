//! Recognizes files that hold CPython.
//!
//! A runtime that loads extension modules exports its functions and types to them, whatever the
//! name of the file. If it exports nothing, it is recognized by its symbol table.

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach::{self, RuntimeFacts};
use super::offsets::Offsets;
use super::symbols::Symbols;
use super::version::Version;
use crate::accessor::{self, Origin};
use crate::split;

/// A file that holds CPython.
#[derive(Debug)]
pub(super) struct File {
    pub(super) loops: Vec<Range<u64>>,
    /// Facts needed to attach, or the reason why they are missing.
    pub(super) facts: Result<RuntimeFacts, Reason>,
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let symbols = Symbols::find(elf)?;
    let eval = symbols.get("_PyEval_EvalFrameDefault").or_else(|| symbols.get("PyEval_EvalFrameEx"))?;
    let main = eval.address..eval.address.checked_add(eval.size)?;
    let loops = split::parts(elf, main);
    Some(File { loops, facts: facts(elf, &symbols) })
}

fn facts(elf: &Elf, symbols: &Symbols<'_>) -> Result<RuntimeFacts, Reason> {
    let version = Version::detect(elf, symbols).ok_or(Reason::Unsupported)?;
    let offsets = Offsets::find(elf, symbols, version).ok_or(Reason::Unsupported)?;
    let state = state(elf, symbols).ok_or(Reason::Unsupported)?;
    let code_type = symbols.address("PyCode_Type").ok_or(Reason::Unsupported)?;
    let current = symbols.address("_PyThreadState_Current");
    let head = symbols.address("PyInterpreterState_Head");
    let interpreters = head.and_then(|address| accessor::word(elf, address));
    Ok(RuntimeFacts { arch: elf.arch(), version, offsets, state, current, interpreters, code_type })
}

/// Returns the origin of a thread's thread state.
///
/// `PyGILState_GetThisThreadState` returns the state that the thread used last, also while the
/// thread runs without the global lock; the state that `PyThreadState_Get` returns is null then. In
/// 2.7 it searches a list of CPython's, and the origin is unused.
fn state(elf: &Elf, symbols: &Symbols<'_>) -> Option<Origin> {
    let runtime = symbols.get("_PyRuntime").map_or(0..0, |it| it.address..it.address.saturating_add(it.size));
    let accessors =
        ["PyGILState_GetThisThreadState", "_PyThreadState_GetCurrent", "PyThreadState_GetUnchecked"];
    accessors
        .iter()
        .filter_map(|name| symbols.address(name))
        .find_map(|address| accessor::returned(elf, address, &|place| runtime.contains(&place)))
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        attach::attach(&self.facts?, target)
    }
}
