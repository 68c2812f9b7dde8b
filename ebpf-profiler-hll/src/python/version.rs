//! Detects the version of a runtime.

use std::fmt;

use ebpf_profiler_core::elf::Elf;

use super::symbols::Symbols;

/// A version of CPython: 3.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Version(pub(super) u8, pub(super) u8);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Version {
    /// Detects the version of a file: by `Py_Version` from 3.11 on, else by symbols that a version
    /// introduced.
    pub(super) fn detect(elf: &Elf, symbols: &Symbols<'_>) -> Option<Version> {
        if let Some(at) = symbols.address("Py_Version") {
            let mut word = [0; 4];
            elf.read(at, &mut word).ok()?;
            return Version::from_hex(u32::from_le_bytes(word));
        }
        let has = |name| symbols.address(name).is_some();
        if !has("_PyRuntime") {
            return match has("_PyEval_EvalFrameDefault") {
                true => Some(Version(3, 6)),
                false => has("PyString_Type").then_some(Version(2, 7)),
            };
        }
        let first = [("PyIter_Send", 10), ("PyThreadState_GetFrame", 9), ("PyCode_NewWithPosOnlyArgs", 8)];
        let minor = first.into_iter().find(|&(name, _)| has(name)).map_or(7, |(_, minor)| minor);
        Some(Version(3, minor))
    }

    /// Decodes a number like `0x030d00f0`.
    pub(super) fn from_hex(number: u32) -> Option<Version> {
        let [major, minor, ..] = number.to_be_bytes();
        (major == 3).then_some(Version(major, minor))
    }
}
