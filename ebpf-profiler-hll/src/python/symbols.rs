//! The symbols of a runtime, exported or kept.

use std::collections::HashMap;

use ebpf_profiler_core::elf::{Elf, Exports, Symbol};

/// The symbols of a runtime.
pub(super) struct Symbols<'a> {
    exports: Option<Exports<'a>>,
    hidden: HashMap<&'static str, Symbol>,
}

impl<'a> Symbols<'a> {
    /// Of a file that has them.
    pub(super) fn of(elf: &'a Elf) -> Option<Symbols<'a>> {
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
const WANTED: [&str; 14] = [
    "_PyRuntime",
    "_PyThreadState_Current",
    "_PyEval_EvalFrameDefault",
    "PyEval_EvalFrameEx",
    "PyGILState_GetThisThreadState",
    "_PyThreadState_GetCurrent",
    "PyThreadState_GetUnchecked",
    "PyInterpreterState_Head",
    "PyCode_Type",
    "PyString_Type",
    "Py_Version",
    "PyIter_Send",
    "PyThreadState_GetFrame",
    "PyCode_NewWithPosOnlyArgs",
];
