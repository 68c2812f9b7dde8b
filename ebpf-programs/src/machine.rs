//! What a walker may ask of whatever runs it.

use crate::abi::arena::Block;

/// The world of a walk: the sampling program in the kernel, a recorded sample, a core dump, a live process.
///
/// Every answer may be wrong or missing; the walker holds it against the others and gives up with a reason.
pub trait Machine {
    /// Block `index` of the [arena](crate::abi::arena), where the tables lie.
    fn block(&self, index: u32) -> Option<&Block>;

    /// Eight bytes of the walked thread's stack. Walks read upwards, in small steps.
    fn stack(&mut self, address: u64) -> Option<u64>;

    /// Eight bytes anywhere in the walked program, at any alignment: a rare question, asked of code.
    fn memory(&mut self, address: u64) -> Option<u64>;

    /// Takes the next frame, leaf first: an address and [`frame`](crate::abi::record::frame) flags.
    fn frame(&mut self, frame: u64);
}
