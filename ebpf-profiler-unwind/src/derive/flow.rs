//! Control flow, and the state that is followed along it.

use ebpf_profiler_core::unwind::Entry;

use crate::table::rules::Packed;

/// The registers that callees preserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callees {
    /// Those of the platform's ABI, and the stack pointer.
    Standard,
    /// The frame pointer. They may pop their arguments, as V8's do.
    PopArguments,
}

/// The facts about registers and stack before one instruction.
pub(super) trait State: Copy + PartialEq {
    /// Returns the state at the entry of a function.
    fn at_entry(entry: Entry, callees: Callees) -> Self;

    /// Returns what holds in both states.
    fn merge(&self, other: &Self) -> Self;

    /// Executes the instruction at the start of `code`. Returns `None` if it cannot be decoded.
    fn step(&mut self, code: &[u8]) -> Option<Step>;

    /// Returns the offset of the stack pointer from the canonical frame address.
    fn stack(&self) -> Option<i32>;

    /// Sets the offset of the stack pointer from the canonical frame address, below which the return address is.
    fn with_stack(self, offset: i32) -> Self;

    /// Returns `true` if the frame pointer is the caller's.
    fn is_unlinked(&self) -> bool;

    /// Returns `true` if a function may return or jump to another one, `false` if it cannot: only if the stack pointer leads to the
    /// return address, and the frame pointer is the caller's. `None` if the stack pointer is unknown.
    fn is_end(&self) -> Option<bool>;

    /// Returns `true` if the stack pointer is above the return address, as in no function.
    fn is_beyond(&self) -> bool;

    /// Returns `true` if the stack pointer may be aligned as the ABI demands it at calls.
    fn is_aligned(&self) -> bool;

    /// Returns `true` if the canonical frame address is known.
    fn has_frame(&self) -> bool;

    /// Returns `true` if both states have the same frame.
    fn has_same_frame(&self, other: &Self) -> bool;

    /// Returns the rule, which marks the register `kept` as lost.
    fn rule(&self, kept: Option<u16>) -> Option<Packed>;
}

/// Offset of the stack pointer from the canonical frame address at the entry of a function, and where it returns.
pub(super) const ENTRY: i32 = -8;

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Size in bytes.
    pub(super) size: usize,
    pub(super) flow: Flow,
    /// `true` if it stores at an address with an index behind the stack pointer.
    pub(super) stores_indexed: bool,
}

/// The instructions that may follow one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// The next one.
    Next,
    /// The next one, after it has pushed what a return may go to.
    Push,
    /// The next one, unless the callee doesn't return.
    Call,
    /// The one at this distance from the next.
    Jump(i64),
    /// The next one, or the one at this distance from it.
    Branch(i64),
    /// One at an unknown address, of this function or another.
    Indirect,
    /// The caller's.
    Return,
    /// No instruction.
    Trap,
}

/// Returns the index in `size` bytes of code at a distance from `next`. `None` for the start, which is entered as from another
/// function.
pub(super) fn target(next: usize, distance: i64, size: usize) -> Option<usize> {
    let target = usize::try_from(i64::try_from(next).ok()?.checked_add(distance)?).ok()?;
    (1..size).contains(&target).then_some(target)
}
