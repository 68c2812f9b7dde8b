//! Names for frames: from an address to the functions that it lies in, with file and line.
//!
//! ```text
//!   kernel address ──► the kernel itself, /proc/kallsyms ────────────────────┐
//!   module, address ─► .symtab, .dynsym, .plt ──► name ──┐                   ├──► demangled ──► [Symbol]
//!                   └► .debug_info, .debug_line ──► inlined functions, lines ┘
//!                      (of the file itself, or of its debug file)
//! ```
//!
//! [`Symbolizer`] is the seam; [`Symbols`] is what a profiler uses unless it is given another one,
//! [`NoSymbols`] leaves addresses as they are. All work is done after sampling, a module at a time, with the
//! addresses in ascending order, so a file is passed over from front to back and only a piece of it is in
//! memory.
//!
//! # What names a frame
//!
//! | frame | from |
//! | --- | --- |
//! | kernel, its modules, BPF programs | the running kernel, or `/proc/kallsyms`; [`Symbol::file`] is the module, or `bpf` |
//! | native | `.symtab`, else that of the debug file, else `.dynsym`; a function's size is respected |
//! | call through the linkage table | its relocation: `memcpy@plt` (x86_64) |
//! | vDSO, deleted file, file in a container | the same: everything is read through [`Module::opener`] |
//! | inlined function, line | DWARF 2 to 5, with feature `symbolize` |
//! | stripped function | no name, but where it begins, from `.eh_frame_hdr`: `gzip+0x42c0` |
//! | Go function, its line, what was inlined into it | [Go's own table](crate::go), stripped or not |
//!
//! Of several names for one function it takes the one seen from outside, with the fewest underscores in
//! front, then the shortest. C++ names come without parameters; [`Symbol::system_name`] still tells overloads
//! apart.
//!
//! A debug file is looked for by build id and by `.gnu_debuglink`, as debuggers do, in
//! [`SymbolOptions::debug_folders`] and beside the file, and has to prove that it belongs to it.
//!
//! # What it doesn't do
//!
//! Wrong names are worse than none: a file that was replaced, a list that the kernel hides, an address behind
//! the end of every function stay without a name and are counted in [`SymbolStats`]. Not read are
//! `.gnu_debugdata` (it takes an LZMA decoder), sections compressed with zstd, split DWARF (`.dwo`; lines are
//! still there), and debuginfod servers.
//!
//! # Hostile files
//!
//! Whoever may start a process on the machine may write the files that are read here. Sizes are held against
//! the file's length, counts and depths have bounds, and the work that one file makes has a budget; what goes
//! beyond is left out and counted. Files are read, not mapped, so one that is cut at the wrong moment is an
//! error and not a signal.
//!
//! # Cost
//!
//! A table takes 16 bytes a function, an index of debug information 12 bytes for each stretch of code, and
//! all caches together [`SymbolOptions::memory`]; a unit of debug information is in memory only while it is
//! looked at. 50,000 addresses of a program of 60 MB with inlined functions and lines, 215,000 functions in
//! all, take 0.4 times the CPU time of `llvm-symbolizer` and 20 MB of memory at most: `cargo run --release
//! --example symbolize_cost -- FILE` tells it for any file.

mod cache;
mod data;
mod debug_file;
mod demangle;
#[cfg(feature = "symbolize")]
mod dwarf;
mod file;
mod go;
mod kernel;
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
pub(crate) use kernel::{KernelName, KernelNames};
pub use options::SymbolOptions;
pub use stats::SymbolStats;
pub use symbols::Symbols;

/// One function that an address lies in.
///
/// An address has several where functions were inlined. The texts are shared: a name that occurs in a
/// thousand frames is in memory once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The name for people: demangled, of C++ without parameters.
    pub function: Arc<str>,
    /// The name as the linker knows it; empty where it is the same.
    pub system_name: Arc<str>,
    /// The source file, or the kernel module; empty where it isn't known.
    pub file: Arc<str>,
    /// The line of the call or the interrupted instruction; 0 where it isn't known.
    pub line: u32,
    /// Its column; 0 where it isn't known.
    pub column: u32,
    /// The line on which the function begins; 0 where it isn't known.
    pub start_line: u32,
}

/// Gives names to addresses.
///
/// Called outside of the path that drains the ring, once for each distinct address of a profile, the
/// addresses of a module in one go and in ascending order.
pub trait Symbolizer: Send {
    /// Names the `addresses` of `module`, virtual addresses of its file, in ascending order.
    ///
    /// `name` is called for every address that has a name, with the number of the address in `addresses` and
    /// its functions, innermost first.
    fn native(&mut self, module: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol]));

    /// Names the kernel `addresses`, in ascending order, in the same way.
    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol]));

    /// Says where functions without a name begin: those that hold `addresses` of `module`, in ascending order.
    ///
    /// `begin` is called for every address whose function is known, with the number of the address in `addresses`
    /// and where the function begins. Asked only for what [`native`](Symbolizer::native) has no name for, so that a
    /// stripped function is one line in a picture, and not one for each place in it. Unless this is implemented,
    /// nothing is known.
    fn starts(&mut self, module: &Module, addresses: &[u64], begin: &mut dyn FnMut(usize, u64)) {
        let _ = (module, addresses, begin);
    }

    /// Returns the counters that a profiler publishes in its health; zero unless implemented.
    fn stats(&self) -> SymbolStats {
        SymbolStats::default()
    }
}

/// Gives no names: profiles show addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbolizer for NoSymbols {
    fn native(&mut self, _: &Module, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

    fn kernel(&mut self, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}
}
