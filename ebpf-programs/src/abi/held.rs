//! Held samples: those whose end comes later, such as allocations until they are freed and requests of disks until they complete.
//!
//! ```text
//!   begin   record with HELD, value v      HELD[owner, kind, address] = time and CPU of the record
//!   end     record END, value e            the sample of that time and CPU ends: it counts once, with value e, unless that is 0
//! ```
//!
//! Until its end a sample counts with value v, in each profile. So allocations have their size and an end of 0, requests 0 and an
//! end of their latency.

/// The key of the map `HELD`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Process whose memory it is; 0 for requests of disks.
    pub owner: u32,
    /// Number of the kind of samples.
    pub event: u32,
    /// Address of the memory, or of the kernel's description of the request.
    pub address: u64,
}

/// A sample that has not ended. The value of the map `HELD`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Time of its record; with the CPU its identity.
    pub time: u64,
    /// CPU of its record.
    pub cpu: u32,
    /// Process of its record.
    pub pid: u32,
    /// Time of its event, in nanoseconds of `CLOCK_MONOTONIC`; 0 if unused.
    pub since: u64,
    /// Weight of the value at its end, in units of 2⁻¹⁶; 0 if unused.
    pub weight: u64,
    /// Not 0 if it has ended, but there was no room for the record: its value plus 1.
    pub ended: u64,
}

/// An allocation from the call to the return. The value of the map `OPENINGS`, whose key is that of a
/// [span](super::span::Key).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// The sample; its time is 0 if there is none.
    pub sample: Held,
    /// The sample of memory that is to be moved; its time is 0 if there is none.
    pub moved: Held,
    /// Address of that memory.
    pub moved_from: u64,
    /// Address of the word that receives the result; 0 if the function returns it.
    pub out: u64,
    /// Number of bytes.
    pub size: u64,
    /// Value of the sample.
    pub value: u64,
}

/// The value of the map `BLOCK`: settings of the latency of disks, written by user space; the last field by the kernel side.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Number of the kind of samples.
    pub event: u64,
    /// Shorter latencies are dropped, in nanoseconds.
    pub threshold: u64,
    /// Byte offset of `bio` in the kernel's `struct request`.
    pub request_bio: u32,
    /// Byte offset of `bi_next` in `struct bio`.
    pub bio_next: u32,
    /// Byte offset of `bi_iter.bi_size` in `struct bio`.
    pub bio_size: u32,
    /// Reserved; must be zero.
    pub reserved: u32,
    /// Mean of the last latencies, in nanoseconds.
    pub mean: u64,
}

/// Cookies of the functions of an allocator.
///
/// ```text
///   0            | role 2 bits at 32 | index word 5 bits at 21 | base word 5 bits at 16 | number of the kind, 16 bits
///
///   size = base × index, or base without an index
/// ```
pub mod cookie {
    /// Lowest bit of the role.
    pub const ROLE_SHIFT: u32 = 32;
    /// Mask of the role, after the shift.
    pub const ROLE: u64 = 3;
    /// A function that returns the address.
    pub const RETURNS: u64 = 0;
    /// A function that moves the memory of its first argument, and returns the address.
    pub const MOVES: u64 = 1;
    /// A function that writes the address to that in its first argument, and returns 0.
    pub const WRITES: u64 = 2;
}

/// Maximum number of samples of memory at once; further ones are lost.
pub const MAX_MEMORY: u32 = 1 << 17;

/// Maximum number of samples of requests at once.
pub const MAX_REQUESTS: u32 = 1 << 14;

/// Maximum number of allocations between call and return. Beyond it, those that began first are forgotten.
pub const MAX_OPENINGS: u32 = 1 << 14;

const _: () = assert!(size_of::<Key>() == 16 && size_of::<Held>() == 40 && size_of::<Opening>() == 112);
