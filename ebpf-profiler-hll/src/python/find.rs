//! Is it a file with CPython in it?
//!
//! By what it exports: a runtime that loads extension modules exports its functions and types to them, whatever the
//! file is called and whatever it is linked into. Where all is hidden, by the symbols that it kept.

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach::{self, Known};
use super::offsets::Offsets;
use super::symbols::Symbols;
use super::version::Version;
use crate::code::{self, Origin};
use crate::split;

/// What the file of a runtime holds.
#[derive(Debug)]
pub(super) struct File {
    pub(super) loops: Vec<Range<u64>>,
    /// What could be learnt, or why it couldn't.
    pub(super) known: Result<Known, Reason>,
}

/// The runtime of a file; nothing where there is none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let symbols = Symbols::of(elf)?;
    let eval = symbols.get("_PyEval_EvalFrameDefault").or_else(|| symbols.get("PyEval_EvalFrameEx"))?;
    let main = eval.address..eval.address.checked_add(eval.size)?;
    let loops = split::parts(elf, main);
    Some(File { loops, known: known(elf, &symbols) })
}

fn known(elf: &Elf, symbols: &Symbols<'_>) -> Result<Known, Reason> {
    let version = Version::of(elf, symbols).ok_or(Reason::Unsupported)?;
    let offsets = Offsets::of(elf, symbols, version).ok_or(Reason::Unsupported)?;
    let state = state(elf, symbols).ok_or(Reason::Unsupported)?;
    let code_type = symbols.address("PyCode_Type").ok_or(Reason::Unsupported)?;
    let current = symbols.address("_PyThreadState_Current");
    let head = symbols.address("PyInterpreterState_Head");
    let interpreters = head.and_then(|address| code::word(elf, address));
    Ok(Known { arch: elf.arch(), version, offsets, state, current, interpreters, code_type })
}

/// How the runtime gets from a thread to its thread state.
///
/// 2.7 searches a list, whatever the C library has. The others answer by the function that extension modules ask, in
/// all versions. It answers with the last one that the thread used, also while it runs without the lock; the one of
/// `PyThreadState_Get` is empty then.
fn state(elf: &Elf, symbols: &Symbols<'_>) -> Option<Origin> {
    let runtime = symbols.get("_PyRuntime").map_or(0..0, |it| it.address..it.address.saturating_add(it.size));
    let ask = ["PyGILState_GetThisThreadState", "_PyThreadState_GetCurrent", "PyThreadState_GetUnchecked"];
    ask.iter()
        .filter_map(|name| symbols.address(name))
        .find_map(|address| code::returned(elf, address, &|place| runtime.contains(&place)))
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        attach::attach(&self.known?, target)
    }
}
