//! The version of a runtime.

use ebpf_profiler_core::elf::{Elf, Exports};

use super::layout::number;

/// A version of V8: 11.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Version(pub(super) u32, pub(super) u32);

impl Version {
    /// Returns the version of a file, `None` if it holds no V8.
    pub(super) fn detect(elf: &Elf, exports: &Exports<'_>) -> Option<Version> {
        let major = number(elf, exports, "_ZN2v88internal7Version6major_E")?;
        let minor = number(elf, exports, "_ZN2v88internal7Version6minor_E")?;
        Some(Version(major, minor))
    }
}
