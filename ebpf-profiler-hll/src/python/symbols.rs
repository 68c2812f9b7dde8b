//! Symbols of a runtime, exported or in the symbol table.

use std::collections::HashMap;

use ebpf_profiler_core::elf::{Elf, Exports, Symbol};

/// The symbols of a runtime.
pub(super) struct Symbols<'a> {
    exports: Option<Exports<'a>>,
    hidden: HashMap<&'static str, Symbol>,
}

impl<'a> Symbols<'a> {
    /// Returns the symbols of a file, `None` if it holds no runtime.
    pub(super) fn find(elf: &'a Elf) -> Option<Symbols<'a>> {
        let exports = elf.exports();
        let exported = |name: &&str| exports.and_then(|exports| exports.get(name)).is_some();
        if !MARKS.iter().any(exported) && !elf.has_symbol(&MARKS) {
            return None;
        }
        let mut symbols = Symbols { exports, hidden: HashMap::new() };
        if !NEEDED.iter().all(|names| names.iter().any(exported)) {
            let starts: Vec<&[u8]> = WANTED.iter().map(|name| name.as_bytes()).collect();
            elf.for_each_symbol_with(&starts, |name, symbol| {
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

/// Each runtime has one of them, and no other file.
const MARKS: [&str; 2] = ["_PyRuntime", "_PyThreadState_Current"];

/// Groups of alternatives; if no symbol of a group is exported, the symbol table is searched.
const NEEDED: [&[&str]; 4] = [
    &MARKS,
    &["_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx"],
    &["PyCode_Type"],
    &["PyGILState_GetThisThreadState"],
];

/// Symbols to search for in the symbol table.
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
