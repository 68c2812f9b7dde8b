//! What was found, what was missed, and why.

/// Counts of what a [`Symbols`](super::Symbols) did since it was made.
///
/// Addresses are counted in the first block, files in the second, pieces of debug information in the third.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SymbolStats {
    /// Addresses that were asked for.
    pub addresses: u64,
    /// Of these, named from the cache (or known from it to have no name).
    pub cached: u64,
    /// Addresses looked up anew that a symbol table names.
    pub named: u64,
    /// Addresses looked up anew that got a source line.
    pub lines: u64,
    /// Inlined functions found at them.
    pub inlined: u64,
    /// Addresses looked up anew that nothing names.
    pub unnamed: u64,

    /// Files opened for the first time, or again after they had left the cache.
    pub files: u64,
    /// Files that are gone, unreadable or no ELF files.
    pub unreadable: u64,
    /// Files whose build id isn't the one of the code that ran; they name nothing.
    pub replaced: u64,
    /// Files without any function symbol.
    pub without_symbols: u64,
    /// Symbol tables too large to be kept, so read again each time.
    pub large_tables: u64,
    /// Separate debug files that were used.
    pub debug_files: u64,
    /// Separate debug files that a file names but that aren't there, or don't belong to it.
    pub debug_files_missing: u64,
    /// Times that the kernel's symbols were read.
    pub kernel_reads: u64,
    /// Times that they were hidden from this process.
    pub kernel_hidden: u64,

    /// Sections compressed in a way that isn't supported, or larger than allowed when inflated.
    pub sections_skipped: u64,
    /// Compilation units too large to be looked into for inlined functions.
    pub units_skipped: u64,
    /// Pieces of debug information that made no sense.
    pub malformed: u64,
    /// Names that couldn't be demangled within their bounds, and stay as they are.
    pub not_demangled: u64,
}
