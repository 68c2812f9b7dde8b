//! Names for frames.

mod cache;
mod data;
mod debug_file;
mod demangle;
#[cfg(feature = "symbolize")]
mod dwarf;
mod file;
mod kernel;
mod options;
mod plt;
mod stats;

mod symbols;
mod table;
mod window;

use std::sync::Arc;

use crate::process::Module;

pub use options::SymbolOptions;
pub use stats::SymbolStats;
pub use symbols::Symbols;

/// One function that an address lies in.
///
/// An address has several where functions were inlined. The texts are shared: a name that occurs in a thousand
/// frames is in memory once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The name for people: demangled.
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
/// Called outside of the path that drains the ring, once for each distinct address of a profile, the addresses
/// of a module in one go and in ascending order.
pub trait Symbolizer: Send {
    /// Names the `addresses` of `module`, virtual addresses of its file, in ascending order.
    ///
    /// `name` is called for every address that has a name, with the number of the address in `addresses` and
    /// its functions, innermost first.
    fn native(&mut self, module: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol]));

    /// Names the kernel `addresses`, in ascending order, in the same way.
    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol]));
}

/// Gives no names: profiles show addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbolizer for NoSymbols {
    fn native(&mut self, _: &Module, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

    fn kernel(&mut self, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}
}
