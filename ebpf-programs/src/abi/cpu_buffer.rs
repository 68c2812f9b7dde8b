//! Per-CPU buffers: each is filled by one CPU alone, without a lock or a wake-up.
//!
//! They carry most records: walked stacks that are short. The ring carries all others: raw and long records, and those that find
//! the buffer full.
//!
//! ```text
//!   written, read       positions in words since the start, each in separate cache lines
//!   words               length | record | length | record | …
//! ```
//!
//! An entry is the length of its record in words, followed by the record. It starts at its position modulo [`WORDS`] and
//! is contiguous: an entry that crosses [`WORDS`] continues in the overflow area behind it.

/// Words of eight bytes in a buffer, without its overflow area; a power of two.
///
/// At 997 samples a second of 16 frames each, a CPU fills three quarters of it between two polls of user space.
pub const WORDS: usize = 8192;

/// Exclusive limit on the length of a record in a per-CPU buffer, in words; a power of two.
pub const MAX_RECORD_WORDS: usize = 1024;

/// The buffer of one CPU, a value of the map `CPU_BUFFERS`.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct CpuBuffer {
    /// End of the complete entries, in words since the start. Written by the kernel side.
    pub written: u64,
    _apart: [u64; 15],
    /// End of the entries that user space has read, in words since the start. Written by user space.
    pub read: u64,
    _behind: [u64; 15],
    /// Entries. Written by the kernel side.
    pub words: [u64; WORDS + MAX_RECORD_WORDS],
}
