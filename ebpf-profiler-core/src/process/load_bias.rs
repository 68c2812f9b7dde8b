//! Location of a file in the memory of a process.

use std::fmt;

/// Difference between the addresses of a file in a process and its virtual addresses, wrapping.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::process::LoadBias;
///
/// let bias = LoadBias::between(0x7f00_0000_1000, 0x1000);
/// assert_eq!(bias, LoadBias::new(0x7f00_0000_0000));
/// assert_eq!(bias.in_process(0x42c0), 0x7f00_0000_42c0);
/// assert_eq!(bias.in_file(0x7f00_0000_42c0), 0x42c0);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LoadBias(u64);

impl LoadBias {
    /// No difference: the process has the file at its virtual addresses.
    pub const ZERO: LoadBias = LoadBias(0);

    /// Returns the load bias of a file whose virtual address 0 is at an address of the process.
    pub const fn new(address: u64) -> LoadBias {
        LoadBias(address)
    }

    /// Returns the load bias of a file with a byte at an address of the process and at a virtual
    /// address of the file.
    pub const fn between(in_process: u64, in_file: u64) -> LoadBias {
        LoadBias(in_process.wrapping_sub(in_file))
    }

    /// Returns the address in the process of a virtual address of the file.
    pub const fn in_process(self, in_file: u64) -> u64 {
        in_file.wrapping_add(self.0)
    }

    /// Returns the virtual address in the file of an address of the process.
    pub const fn in_file(self, in_process: u64) -> u64 {
        in_process.wrapping_sub(self.0)
    }
}

impl fmt::Debug for LoadBias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadBias({:#x})", self.0)
    }
}
