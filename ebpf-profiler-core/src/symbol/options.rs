//! What a symbolizer may take and where it looks.

use std::path::PathBuf;

/// What [`Symbols`](super::Symbols) may take, and where it looks.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::symbol::{SymbolOptions, Symbols};
///
/// let mut options = SymbolOptions::default();
/// options.inlined = false;
/// options.memory = 4 << 20;
/// let symbols = Symbols::new(options);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SymbolOptions {
    /// The list of the kernel's symbols: `/proc/kallsyms`.
    pub kallsyms: PathBuf,
    /// Folders with separate debug files: `/usr/lib/debug`.
    pub debug_folders: Vec<PathBuf>,
    /// Whether debug files are looked for at all, beside the file and in
    /// [`debug_folders`](Self::debug_folders).
    pub debug_files: bool,
    /// Whether source files and lines are looked up; needs feature `symbolize`.
    pub lines: bool,
    /// Whether inlined functions are looked up; needs feature `symbolize`.
    pub inlined: bool,
    /// How many bytes all caches together may hold: 24 MiB. The kernel's names come on top, about 40 bytes
    /// each.
    pub memory: usize,
    /// How many bytes of debug information are held at once for one compilation unit: 16 MiB.
    ///
    /// A unit that is larger gives lines, but no inlined functions.
    pub max_unit: usize,
    /// How many bytes a compressed section may have when inflated: 64 MiB. One that is larger isn't used.
    pub max_inflated: usize,
}

impl Default for SymbolOptions {
    fn default() -> SymbolOptions {
        SymbolOptions {
            kallsyms: "/proc/kallsyms".into(),
            debug_folders: vec!["/usr/lib/debug".into()],
            debug_files: true,
            lines: true,
            inlined: true,
            memory: 24 << 20,
            max_unit: 16 << 20,
            max_inflated: 64 << 20,
        }
    }
}

impl SymbolOptions {
    /// Returns the bytes that all cached files together may take.
    ///
    /// The cache gives one file at most half of it: half of that for its symbols, half for its index.
    pub(super) fn files_budget(&self) -> usize {
        self.memory / 3 * 2
    }

    /// Returns the bytes that the index of one file's debug information may take.
    #[cfg(feature = "symbolize")]
    pub(super) fn index_budget(&self) -> usize {
        self.files_budget() / 5
    }
}
