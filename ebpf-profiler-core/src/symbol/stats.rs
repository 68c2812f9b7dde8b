//! Counters of a symbolizer.

/// Counters of a [`Symbols`](super::Symbols) since its creation.
///
/// Addresses are counted in the first block, files in the second, pieces of debug information in
/// the third.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SymbolStats {
    /// Addresses looked up.
    pub addresses: u64,
    /// Of these, answered from the cache.
    pub cached: u64,
    /// Addresses outside the cache with a name.
    pub named: u64,
    /// Addresses outside the cache with a source line.
    pub lines: u64,
    /// Inlined functions at addresses outside the cache.
    pub inlined: u64,
    /// Addresses outside the cache without a name.
    pub unnamed: u64,
    /// Return addresses outside the cache that follow no call instruction: see
    /// [`FrameView::is_doubtful`](crate::profile::FrameView::is_doubtful).
    pub doubtful: u64,

    /// Files opened for the first time, or again after they had left the cache.
    pub files: u64,
    /// Files that are gone, unreadable or no ELF files.
    pub unreadable: u64,
    /// Files replaced since they were mapped, by build id; they name nothing.
    pub replaced: u64,
    /// Files without any function symbol.
    pub without_symbols: u64,
    /// Symbol tables too large for the cache, which are read for each batch.
    pub large_tables: u64,
    /// Separate debug files used.
    pub debug_files: u64,
    /// Separate debug files that are missing or do not belong to the file.
    pub debug_files_missing: u64,
    /// Reads of the kernel's symbol list.
    pub kernel_reads: u64,
    /// Reads of the kernel's symbol list without addresses, hidden from this process.
    pub kernel_hidden: u64,

    /// Sections with unsupported compression, or larger than the limit when inflated.
    pub sections_skipped: u64,
    /// Compilation units too large to search for inlined functions.
    pub units_skipped: u64,
    /// Invalid pieces of debug information.
    pub malformed: u64,
    /// Names that could not be demangled within the limits; they stay mangled.
    pub not_demangled: u64,
}
