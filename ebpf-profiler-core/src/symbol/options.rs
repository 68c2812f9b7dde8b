//! Options of a symbolizer.

use std::path::{Path, PathBuf};

/// Limits and search paths of [`Symbols`](super::Symbols).
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
    /// Path of the kernel's symbol list. Default: `/proc/kallsyms`. With another path, the running
    /// kernel is not asked for names, and the list counts as that of any profile's kernel.
    pub kallsyms: PathBuf,
    /// Folders with separate debug files. Default: `/usr/lib/debug`.
    pub debug_folders: Vec<PathBuf>,
    /// Search for separate debug files, by build id and debug link, beside the file and in
    /// [`debug_folders`](Self::debug_folders). Default: `true`.
    pub debug_files: bool,
    /// Open debug files of file systems that another program or machine serves, such as FUSE and
    /// NFS. Default: `false`.
    pub any_file_system: bool,
    /// Look up source files and lines; needs feature `symbolize`. Default: `true`.
    pub lines: bool,
    /// Look up inlined functions; needs feature `symbolize`. Default: `true`.
    pub inlined: bool,
    /// Memory budget of all caches, in bytes. Default: 24 MiB. Kernel names take about 40 bytes
    /// each on top.
    pub memory: usize,
    /// Maximum size of a compilation unit's debug information, in bytes. Default: 16 MiB.
    ///
    /// A larger unit has lines, but no inlined functions.
    pub max_unit: usize,
    /// Maximum size of an inflated section, in bytes; a larger one is not read. Default: 64 MiB.
    pub max_inflated: usize,
}

impl Default for SymbolOptions {
    fn default() -> SymbolOptions {
        SymbolOptions {
            kallsyms: KALLSYMS.into(),
            debug_folders: vec!["/usr/lib/debug".into()],
            debug_files: true,
            any_file_system: false,
            lines: true,
            inlined: true,
            memory: 24 << 20,
            max_unit: 16 << 20,
            max_inflated: 64 << 20,
        }
    }
}

impl SymbolOptions {
    /// Returns `true` if the list is that of the running kernel.
    pub(super) fn has_running_kernel(&self) -> bool {
        *self.kallsyms == *Path::new(KALLSYMS)
    }

    /// Returns the bytes that all cached files together may take.
    ///
    /// The cache gives one file at most half of it: half of that for its symbols, half for its
    /// index.
    pub(super) fn files_budget(&self) -> usize {
        self.memory / 3 * 2
    }

    /// Returns the bytes that the index of one file's debug information may take.
    #[cfg(feature = "symbolize")]
    pub(super) fn index_budget(&self) -> usize {
        self.files_budget() / 5
    }
}

/// Symbol list of the running kernel.
const KALLSYMS: &str = "/proc/kallsyms";
