//! Events of the embedder's own eBPF programs.
//!
//! ```text
//!   own program at an event                                      this crate's program
//!   ───────────────────────                                      ────────────────────
//!   OWN_EVENTS[address of the context] = Event { value, kind }
//!   tail call of *_WALKS[OWN]  ────────────────────────────────► checks kind and value, removes the entry, takes the sample
//!   (returns: OWN_EVENTS has no such entry any more, or there is no walk)
//! ```
//!
//! The address of the context is unique among the events that are under way on all CPUs, so programs that interrupt one another do
//! not mix up their events.

/// An event. The value of the map `OWN_EVENTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Value of the sample in the unit of its kind, at most [`MAX_VALUE`].
    pub value: u64,
    /// Number of the kind of samples.
    pub kind: u32,
    /// Reserved; must be zero.
    pub reserved: u32,
}

/// Highest value of an event. Events above it are counted as lost, so that no sum overflows.
pub const MAX_VALUE: u64 = 1 << 48;

/// Maximum number of events that are under way at a time.
pub const MAX_EVENTS: u32 = 1024;

/// Indices of the maps of walks.
pub mod walk {
    /// The walk at events of own programs.
    pub const OWN: u32 = 0;
    /// The walk at events of this crate's programs.
    pub const EVENT: u32 = 1;
    /// The walk at the end of a span.
    pub const SPAN: u32 = 2;
    /// The walk of a held sample.
    pub const HELD: u32 = 3;
    /// Number of walks.
    pub const COUNT: usize = 4;
}

const _: () = assert!(size_of::<Event>() == 16);
