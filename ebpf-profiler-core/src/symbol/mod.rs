//! Symbolization: from addresses to functions, with file and line.
//!
//! ```text
//!   kernel address ──► the kernel itself, /proc/kallsyms ────────────────────┐
//!   module, address ─► .symtab, .dynsym, .plt ──► name ──┐                   ├──► demangled ──► [Symbol]
//!                   └► .debug_info, .debug_line ──► inlined functions, lines ┘
//!                      (of the file itself, or of its debug file)
//! ```
//!
//! [`Symbolizer`] is the seam, [`Symbols`] the default implementation, and [`NoSymbols`] leaves
//! addresses as they are. Symbolization happens after sampling, one module at a time with ascending
//! addresses, so a file is read from front to back and only a part of it is in memory.
//!
//! # Sources of names
//!
//! | frame | source |
//! | --- | --- |
//! | kernel, its modules, BPF programs | the running kernel, or `/proc/kallsyms`; [`Symbol::file`] is the module, or `bpf` |
//! | native | `.symtab`, else that of the debug file, else `.dynsym`; addresses beyond a function's size have no name |
//! | call through the linkage table | its relocation: `memcpy@plt` (x86_64) |
//! | vDSO, deleted file, file in a container | the same, read through [`Module::opener`] |
//! | inlined function, line | DWARF 2 to 5, with feature `symbolize` |
//! | stripped function | its start, from `.eh_frame_hdr`: `gzip+0x42c0` |
//! | Go function, its line, inlined functions | Go's function table (`.gopclntab`), stripped or not |
//!
//! Of several names for one function, a global one with the fewest leading underscores is used,
//! then the shortest. C++ names have no parameters; [`Symbol::system_name`] distinguishes
//! overloads.
//!
//! Debug files are searched by build id and by `.gnu_debuglink`, as debuggers do, in
//! [`SymbolOptions::debug_folders`] and beside the file, and are checked to belong to it.
//!
//! # Limitations
//!
//! Wrong names are worse than missing ones: replaced files, hidden kernel symbols and addresses
//! beyond the end of every function have no name and are counted in [`SymbolStats`]. Not supported
//! are `.gnu_debugdata` (which needs an LZMA decoder), sections compressed with zstd, split DWARF
//! (`.dwo`; lines are available), and debuginfod servers.
//!
//! # Untrusted files
//!
//! Any user who can start a process writes files that are read here. Sizes are checked against the
//! file's length, counts and depths are bounded, and each file has a work budget; input beyond a
//! limit is skipped and counted. Files are read, not mapped, so truncation causes an error and not
//! a signal.
//!
//! # Cost
//!
//! A symbol table takes 16 bytes per function, an index of debug information 12 bytes per range of
//! code, and all caches together [`SymbolOptions::memory`]. A unit of debug information is in
//! memory only while it is read. 50,000 addresses of a program of 60 MB with inlined functions and
//! lines, 215,000 functions in all, take 0.4 times the CPU time of `llvm-symbolizer` and at most 20
//! MB of memory: `cargo run --release --example symbolize_cost -- FILE` measures any file.

mod cache;
mod call;
mod data;
mod debug_file;
mod demangle;
#[cfg(feature = "symbolize")]
mod dwarf;
mod file;
mod go;
mod kernel;
mod kernel_symbols;
mod options;
mod plt;
mod starts;
mod stats;

mod symbols;
mod table;
mod window;

use std::sync::Arc;

use crate::process::Module;

#[cfg(feature = "live")]
pub(crate) use kernel::{KernelName, KernelNames, boot_id};
pub use kernel_symbols::KernelSymbols;
pub use options::SymbolOptions;
pub use stats::SymbolStats;
pub use symbols::Symbols;

/// A function that contains an address.
///
/// An address in inlined code has several. Texts are shared: a name in a thousand frames is in
/// memory once.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::symbol::Symbol;
///
/// let symbol = Symbol::new("read").with_system_name("__libc_read").with_file("io/read.c").with_line(26);
/// assert_eq!((&*symbol.file, symbol.line, symbol.column), ("io/read.c", 26, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Symbol {
    /// The demangled name; C++ names have no parameters.
    pub function: Arc<str>,
    /// The linker's (mangled) name; empty if it is the same.
    pub system_name: Arc<str>,
    /// The source file, or the kernel module; empty if unknown.
    pub file: Arc<str>,
    /// The line of the call or the interrupted instruction; 0 if unknown.
    pub line: u32,
    /// The column; 0 if unknown.
    pub column: u32,
    /// The line on which the function begins; 0 if unknown.
    pub start_line: u32,
}

impl Symbol {
    /// Creates a symbol of a function; its other fields are unknown.
    pub fn new(function: impl Into<Arc<str>>) -> Symbol {
        Symbol { function: function.into(), ..Symbol::default() }
    }

    /// Sets the linker's name.
    #[must_use = "the symbol is returned"]
    pub fn with_system_name(self, name: impl Into<Arc<str>>) -> Symbol {
        Symbol { system_name: name.into(), ..self }
    }

    /// Sets the source file.
    #[must_use = "the symbol is returned"]
    pub fn with_file(self, file: impl Into<Arc<str>>) -> Symbol {
        Symbol { file: file.into(), ..self }
    }

    /// Sets the line of the call or the interrupted instruction.
    #[must_use = "the symbol is returned"]
    pub fn with_line(self, line: u32) -> Symbol {
        Symbol { line, ..self }
    }

    /// Sets the column.
    #[must_use = "the symbol is returned"]
    pub fn with_column(self, column: u32) -> Symbol {
        Symbol { column, ..self }
    }

    /// Sets the line on which the function begins.
    #[must_use = "the symbol is returned"]
    pub fn with_start_line(self, line: u32) -> Symbol {
        Symbol { start_line: line, ..self }
    }
}

/// A source of names for addresses.
///
/// Called after sampling, on a separate thread, once per distinct address of a profile; the
/// addresses of a module are passed together and in ascending order.
pub trait Symbolizer: Send {
    /// Names the `addresses` of `module`, virtual addresses of its file, in ascending order.
    ///
    /// Calls `name` for every address that has a name, with the index of the address in `addresses`
    /// and its functions, innermost first.
    fn native(&mut self, module: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol]));

    /// Names the kernel `addresses`, in ascending order, in the same way.
    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol]));

    /// Returns `true` if [`kernel`](Symbolizer::kernel) names addresses of the kernel with this
    /// boot id (`/proc/sys/kernel/random/boot_id`), whose addresses differ after each boot.
    ///
    /// Called by [`Profile::symbolize`](crate::profile::Profile::symbolize). The default
    /// implementation returns `false`.
    fn has_kernel(&self, boot_id: &str) -> bool {
        let _ = boot_id;
        false
    }

    /// Finds the starts of the functions that contain `addresses` of `module`, in ascending order.
    ///
    /// Calls `begin` for every address whose function is known, with the index of the address in
    /// `addresses` and the start of the function. Called for addresses without a name, so that
    /// a stripped function is one frame in a flame graph and not one per address. The default
    /// implementation finds nothing.
    fn starts(&mut self, module: &Module, addresses: &[u64], begin: &mut dyn FnMut(usize, u64)) {
        let _ = (module, addresses, begin);
    }

    /// Checks that a call instruction of `module` ends at each of `addresses`, in ascending order:
    /// those of frames whose callee was called, one byte before its return address.
    ///
    /// Calls `doubt` with the index of every address where there is none: the frame is wrong, or
    /// code was entered in an unusual way. Called after [`native`](Symbolizer::native) for the
    /// same module. The default implementation doubts nothing.
    fn calls(&mut self, module: &Module, addresses: &[u64], doubt: &mut dyn FnMut(usize)) {
        let _ = (module, addresses, doubt);
    }

    /// Returns the counters that a profiler publishes in its health; zero unless implemented.
    fn stats(&self) -> SymbolStats {
        SymbolStats::default()
    }
}

/// A symbolizer without names: profiles show addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbolizer for NoSymbols {
    fn native(&mut self, _: &Module, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

    fn kernel(&mut self, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}
}
