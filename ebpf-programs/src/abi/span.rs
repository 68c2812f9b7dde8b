//! Spans: times between two events of a thread.

/// The key of the map `SPANS`, whose value is the beginning in nanoseconds of `CLOCK_MONOTONIC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Thread id.
    pub tid: u32,
    /// Number of the kind of samples.
    pub event: u32,
    /// Address on the stack that distinguishes recursive calls: the stack pointer at the return of a function, or the context of its
    /// programs; 0 for system calls.
    pub place: u64,
}

/// Maximum number of spans at once. Beyond it, those that began first are forgotten.
pub const MAX_SPANS: u32 = 1 << 16;

const _: () = assert!(size_of::<Key>() == 16);
