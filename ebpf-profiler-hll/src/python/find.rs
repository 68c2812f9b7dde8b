//! Is it a file with CPython in it?
//!
//! By what it exports: a runtime that loads extension modules exports its functions and types to them, whatever the
//! file is called and whatever it is linked into. Where all is hidden, by the symbols that it kept.

use std::collections::HashMap;
use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf, Exports, Symbol};
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach;
use super::offsets::Offsets;
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

/// What is needed to attach.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) arch: Arch,
    pub(super) version: Version,
    pub(super) offsets: Offsets,
    /// From a thread to its thread state.
    ///
    /// In 2.7 only what says whether there is one is of use: the first interpreter.
    pub(super) state: Origin,
    /// What says which thread state is in use, where there is a symbol for it.
    pub(super) current: Option<u64>,
    /// The type of code objects.
    pub(super) code_type: u64,
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
    Ok(Known { arch: elf.arch(), version, offsets, state, current, code_type })
}

/// How the runtime gets from a thread to its thread state.
///
/// 2.7 searches a list, whatever the C library has. The others answer by the function that extension modules ask, in all versions. It answers with the last one that the thread used,
/// also while it runs without the lock; the one of `PyThreadState_Get` is empty then.
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

/// The symbols of a runtime.
pub(super) struct Symbols<'a> {
    exports: Option<Exports<'a>>,
    hidden: HashMap<&'static str, Symbol>,
}

impl<'a> Symbols<'a> {
    /// Of a file that has them.
    fn of(elf: &'a Elf) -> Option<Symbols<'a>> {
        let exports = elf.exports();
        let exported = |name: &&str| exports.and_then(|exports| exports.get(name)).is_some();
        if !MARKS.iter().any(exported) && !elf.has_symbol(&MARKS) {
            return None;
        }
        let mut symbols = Symbols { exports, hidden: HashMap::new() };
        if !NEEDED.iter().all(|names| names.iter().any(exported)) {
            elf.for_each_symbol(|name, symbol| {
                if let Some(wanted) = WANTED.iter().find(|wanted| wanted.as_bytes() == name) {
                    symbols.hidden.insert(*wanted, symbol);
                }
            });
        }
        Some(symbols)
    }

    pub(super) fn get(&self, name: &str) -> Option<Symbol> {
        self.exports.and_then(|exports| exports.get(name)).or_else(|| self.hidden.get(name).copied())
    }

    pub(super) fn address(&self, name: &str) -> Option<u64> {
        self.get(name).map(|symbol| symbol.address)
    }
}

/// Each runtime has one of them, and nothing else.
const MARKS: [&str; 2] = ["_PyRuntime", "_PyThreadState_Current"];

/// Where none of one of these is exported, not all is that is of use.
const NEEDED: [&[&str]; 4] = [
    &MARKS,
    &["_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx"],
    &["PyCode_Type"],
    &["PyGILState_GetThisThreadState"],
];

/// What is looked for where not all is exported.
const WANTED: [&str; 13] = [
    "_PyRuntime",
    "_PyThreadState_Current",
    "_PyEval_EvalFrameDefault",
    "PyEval_EvalFrameEx",
    "PyGILState_GetThisThreadState",
    "_PyThreadState_GetCurrent",
    "PyThreadState_GetUnchecked",
    "PyCode_Type",
    "PyString_Type",
    "Py_Version",
    "PyIter_Send",
    "PyThreadState_GetFrame",
    "PyCode_NewWithPosOnlyArgs",
];
