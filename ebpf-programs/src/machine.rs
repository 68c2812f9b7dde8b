//! What a walker may ask of whatever runs it.

use crate::abi::arena::Block;

/// The world of a walk: the sampling program in the kernel, a recorded sample, a core dump, a live process.
pub trait Machine {
    /// Block `index` of the [arena](crate::abi::arena), where the tables lie.
    fn block(&self, index: u32) -> Option<&Block>;

    /// Eight bytes of the walked program's memory at `address`; `None` where they can't be had.
    fn read(&mut self, address: u64) -> Option<u64>;
}
